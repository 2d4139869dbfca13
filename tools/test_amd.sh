#!/usr/bin/env bash
# The AMD path on a machine without an AMD card: the tests load a double of libamdhip64 whose "device" interprets the real
# gfx code objects of this build (tools/amd). usage:
#   tools/test_amd.sh BUILD ops TARGET [f32|f16|bf16 …]   the op table in these types of maps
#   tools/test_amd.sh BUILD program TARGET NAME           one of the test programs
#   tools/test_amd.sh BUILD run TARGET                    the real program, end to end (tools/test_device.sh)
#   tools/test_amd.sh BUILD interpreter TARGET            errors planted in kernels are found (needs clang-19)
#   tools/test_amd.sh BUILD kernels TARGET                every kernel of the archive was launched by one of the above
# Skipped (exit 77) where python3 with numpy, llvm-objdump or the target's device code is missing; ONELOOK_PYTHON names another python.
set -euo pipefail
cd "$(dirname "$0")/.."
build="$(cd "${1:?build folder}" && pwd)" what="${2:?ops, program, run, interpreter or kernels}" target="${3:?target}"
shift 3
skip() { echo "skipped: $1"; exit 77; }

python="${ONELOOK_PYTHON:-}"
for candidate in python3 /usr/bin/python3; do
  if [ -z "$python" ] && "$candidate" -c 'import numpy' 2>/dev/null; then python="$candidate"; fi
done
[ -n "$python" ] || skip "no python3 with numpy (apt-get install python3-numpy)"
objdump=""
for candidate in llvm-objdump-22 llvm-objdump-21 llvm-objdump-20 llvm-objdump-19; do
  if [ -z "$objdump" ] && command -v "$candidate" >/dev/null; then objdump="$candidate"; fi
done
[ -n "$objdump" ] || skip "no llvm-objdump of version 19 or later (apt-get install llvm-19)"

for needed in yolo kernels.bin; do
  [ -e "$build/$needed" ] || { echo "test_amd: no $needed in $build: build it first (make)" >&2; exit 2; }
done

if [ "$what" = kernels ]; then exec "$python" tools/amd/amdcover.py "$build/kernels.bin" "$target" "$build/amd-coverage"; fi

if [ "$what" = interpreter ]; then
  knows() { command -v "$1" >/dev/null && "$1" -x hip --cuda-device-only --offload-arch="$target" -nogpulib -nogpuinc -fsyntax-only /dev/null 2>/dev/null; }
  for clang in clang-19 clang-20 clang-21 clang-22 ''; do knows "$clang" && break; done
  [ -n "$clang" ] || skip "no clang that knows $target (apt-get install clang-19 lld-19; gfx950 needs 20)"
  PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=tools/amd LLVM_OBJDUMP="$objdump" exec "$python" tests/amd/test_interpreter.py "$clang" "$target"
fi

double="$build/amd-double"
mkdir -p "$double"
if [ ! -f "$double/libamdhip64.so.6" ] || [ tools/amd/hipemu.c -nt "$double/libamdhip64.so.6" ]; then
  ${CC:-cc} -O2 -shared -fPIC -fvisibility=hidden tools/amd/hipemu.c -o "$double/$$.so" -lpthread -ldl
  mv "$double/$$.so" "$double/libamdhip64.so.6"
fi
export AMDEMU_ARCH="$target" AMDEMU_DIR="$PWD/tools/amd" AMDEMU_PYTHON="$python" LLVM_OBJDUMP="$objdump"
export LD_LIBRARY_PATH="$double${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" ONELOOK_TEST_DEVICE=hip:0
mkdir -p "$build/amd-coverage"
export AMDEMU_COVERAGE="$build/amd-coverage/$target-$what${1:+-$1}"
rm -f "$AMDEMU_COVERAGE"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 # the interpreter's products are tiny

tests/support/has_code.sh "$build/yolo" "$target" || skip "this build has no device code for $target (-DONELOOK_GPU_TARGETS chose others, or clang-19 was missing)"
checks="$("$build/yolo" checks)"
grep '^Device hip:0' <<<"$checks" | grep -v 'no code for its architecture' >/dev/null || { echo "test_amd: the double of AMD's runtime shows no device that can be used:"; echo "$checks"; exit 1; } >&2

case "$what" in
  ops)
    for type in "${@:-f32}"; do
      echo "== $target, maps in $type"
      ONELOOK_TEST_COMPUTE="$type" "$build/tests/test_ops"
    done
    ;;
  program) "$build/tests/$1" ;;
  run) tools/test_device.sh "$build/yolo" hip:0 ;;
  *) echo "test_amd: '$what' is none of ops, program, run, interpreter, kernels" >&2; exit 2 ;;
esac
