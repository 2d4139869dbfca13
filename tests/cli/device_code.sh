#!/usr/bin/env bash
# usage: device_code.sh path/to/yolo folder/of/doubles
# What a prediction hands to NVIDIA's driver, which a stand-in notes: compiling takes it seconds, so it gets the kernels that are
# launched and no others, at once; and no device is started that is only looked at.
set -u
yolo="$(realpath "$1")" code="$(realpath "$(dirname "$0")/../support/has_code.sh")"
export LD_LIBRARY_PATH="$(realpath "$2")_cuda" CUDA_DOUBLE_MB=512 CUDA_DOUBLE_VERSION=13000 CUDA_DOUBLE_DEVICES=sm_90 LC_ALL=C.UTF-8 NO_COLOR=1
unset CUDA_VISIBLE_DEVICES
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
if ! "$code" "$yolo" ptx; then echo "skipped: this build has no code for NVIDIA's cards"; exit 77; fi
failures=0
wrong() { echo "WRONG: $*"; failures=$((failures + 1)); }
"$yolo" shapes dir="$scratch/shapes" n_train=2 n_val=1 size=64 >/dev/null
cat >small.yaml <<'Y'
nc: 1
end2end: True
reg_max: 1
scale: t
scales:
  t: [0.5, 0.015625, 1024]
backbone:
  - [-1, 1, Conv, [512, 3, 2]]
  - [-1, 1, Conv, [1024, 3, 2]]
  - [-1, 1, C3k2, [1024, True]]
head:
  - [[2], 1, Detect, [nc]]
Y
predict() { # LOG VARIABLE=value …: a prediction on the double; its log
  local log="$1"
  shift
  rm -f "$log"
  env CUDA_DOUBLE_CODE="$log" "$@" "$yolo" predict model=small.yaml source="$scratch/shapes/images/val" imgsz=64 device=0 save=False >said 2>&1 ||
    { wrong "a prediction with $* fails"; tail -4 said; }
}
count() { grep -cx "$2" "$1"; }
names() { sed -n "s/^$2 //p" "$1" | sort; }
# no machine code is made for this one ahead of time
predict compiled CUDA_DOUBLE_DEVICES=sm_110
[ "$(count compiled 'split ptx')" = 1 ] || wrong "PTX is handed over $(count compiled 'split ptx') times, not once with all processors"
[ "$(count compiled 'context ')" = 1 ] || wrong "$(count compiled 'context ') devices are started, not one"
[ "$(names compiled function | wc -l)" -gt 8 ] || wrong "hardly a kernel is used"
diff <(names compiled kernel) <(names compiled function) || wrong "the driver compiles other kernels (<) than the run asks for (>)"
predict older CUDA_DOUBLE_DEVICES=sm_110 CUDA_DOUBLE_VERSION=12040
[ "$(count older 'load ptx')" = 1 ] || wrong "a driver that knows no such option does not get the code without it"
[ "$(count older 'split .*')" = 0 ] || wrong "a driver before 12.9 is asked for what it does not know"
predict nine CUDA_DOUBLE_DEVICES=sm_90
if grep -qx 'split machine code' nine; then # a build with NVIDIA's assembler
  ! grep -q 'ptx' nine || wrong "PTX is compiled beside machine code"
  predict refused CUDA_DOUBLE_DEVICES=sm_90 CUDA_DOUBLE_FOREIGN=1
  [ "$(grep -c 'machine code' refused)" = 2 ] || wrong "machine code that the card refused is offered again"
  diff <(names refused kernel) <(names compiled kernel) || wrong "after a refusal other kernels are compiled"
fi
said="$(CUDA_DOUBLE_DEVICES=sm_90,sm_90 "$yolo" checks)"
grep -q '^Device cuda:0 .*reaches the memory of cuda:1$' <<<"$said" || wrong "checks does not say that the cards reach each other's memory"
"$yolo" checks | grep -q 'reaches the memory' && wrong "a single card reaches another's memory"
# it computes nothing, so the self-test fails, but tells what it knows of the kernels
"$yolo" selftest device=0 model=None report="$scratch/report" 2>&1 | grep -q '^Kernels .* used; at most 40 registers (.*), none spilled' ||
  wrong "the self-test does not tell about the kernels"
[ "$failures" = 0 ]
