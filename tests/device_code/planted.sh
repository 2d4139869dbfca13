#!/usr/bin/env bash
# tools/check_device_code.sh finds every fault that it is there for: planted one at a time into a copy of this build's device code.
# usage: planted.sh BUILD   Skipped (77) without this build's own device code for gfx1100, gfx942 and ptx, or without clang and llvm.
set -uo pipefail
source="$(cd "$(dirname "$0")/../.." && pwd)"
code="$(cd "${1:?build folder}" && pwd)/kernels"
for clang in clang-19 clang-20 clang-21 clang-22 ''; do command -v "$clang" >/dev/null && break; done
[ -n "$clang" ] || { echo "skipped: no clang of version 19 or later (apt-get install clang-19 lld-19)"; exit 77; }
for target in gfx942 gfx1100 ptx; do [ -d "$code/$target" ] || { echo "skipped: this build has compiled no device code for $target"; exit 77; }; done
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
failures=0
fresh() { # target, module …: a folder with these modules of the target (none named: all)
  rm -rf "$work/code"
  mkdir -p "$work/code/$1"
  if [ $# = 1 ]; then cp "$code/$1"/* "$work/code/$1/"; fi
  for module in "${@:2}"; do cp "$code/$1/$module" "$work/code/$1/"; done
}
plant() { # target, fault, module that it replaces
  local how=(-x hip --cuda-device-only --no-gpu-bundle-output --offload-arch="$1" -nogpulib -nogpuinc -munsafe-fp-atomics)
  [ "$1" != ptx ] || how=(-x cuda --cuda-device-only --cuda-gpu-arch=sm_80 -nocudainc -nocudalib --cuda-path=/nonexistent --cuda-feature=+ptx71 -S)
  "$clang" "${how[@]}" -O3 -std=c++17 -I"$source/src/kernels" -DFAULT="$2" "$source/tests/device_code/planted.gpu.c" -o "$work/code/$1/$3" ||
    { echo "FAILED: fault $2 does not compile for $1"; exit 1; }
}
expect() { # words of the finding
  "$source/tools/check_device_code.sh" "$work/code" >"$work/said" 2>&1
  local rc=$?
  [ "$rc" = 1 ] && grep -qE "^FAILED: .*$1" "$work/said" && return
  echo "FAILED: '$1' is not found (exit code $rc)"
  tail -3 "$work/said"
  failures=$((failures + 1))
}

fresh gfx1100 && "$source/tools/check_device_code.sh" "$work/code" >"$work/said" || { tail -5 "$work/said"; echo "FAILED: code without a planted fault"; exit 1; }
grep -qE 'conv_f16_.* vgpr +[0-9]+ .* LDS +[1-9][0-9]*$' "$work/said" || { echo "FAILED: registers and LDS are not printed"; failures=1; }
for target in gfx942 gfx1100; do
  fresh "$target"; plant "$target" 1 loss; expect "private memory, .* $target planted"
  fresh "$target"; plant "$target" 2 loss; expect "block of 128 threads.* $target planted"
  fresh "$target"; plant "$target" 3 bn; expect "spilled vector registers, .* $target planted"
  fresh "$target"; plant "$target" 4 conv_f16; expect "no v_.* $target conv_f16_planted"
  fresh "$target"; cp "$work/code/$target/conv_f32" "$work/code/$target/conv_bf16"; expect "no kernel with v_.*: $target conv_bf16"
  fresh "$target"; rm "$work/code/$target/gemm"; expect "no module gemm: $target"
done
fresh ptx map; plant ptx 1 loss; expect "local memory in .*loss"
fresh ptx map; sed -i '0,/fma\.rn\.f32/s//mul.f32/' "$work/code/ptx/map"; expect "roundings that the driver may fuse in .*map"
fresh ptx map; cp "$work/code/ptx/map" "$work/code/ptx/map2"; expect "more than one add"
fresh ptx map gemm; for module in map gemm; do sed -i '0,/^\.visible/s//.shared .align 16 .b8 planted[64];\n&/' "$work/code/ptx/$module"; done; expect "more than one planted$"
if command -v "${PTXAS:-ptxas}" >/dev/null || [ -x /usr/local/cuda/bin/ptxas ]; then
  fresh ptx gemm; sed -i -E 's/^\.maxntid .*/&\n.maxnreg 32/' "$work/code/ptx/gemm"; expect "stack frame in gemm for sm_(80|90)"
  fresh ptx map; sed -i '0,/ld\.param/s//ld.nothing/' "$work/code/ptx/map"; expect "ptxas sm_(80|90) map"
fi
[ "$failures" = 0 ] && echo "every planted fault is found"
exit "$failures"
