#!/usr/bin/env bash
# usage: device_steps.sh path/to/yolo folder/of/doubles
# What a training step asks of the driver once it is recorded: calls of a long epoch less those of a short one, by a stand-in for
# AMD's runtime that writes them down. Nothing is allocated, one recording is replayed (with the optimizer's step in it), and
# the host waits for the copy of the next pictures and for the step before, never for the step itself.
set -u
few="$(realpath "$(dirname "$0")/../fixtures/few.yaml")"
yolo="$(realpath "$1")" code="$(realpath "$(dirname "$0")/../support/has_code.sh")"
export LD_LIBRARY_PATH="$2" LC_ALL=C.UTF-8 NO_COLOR=1 HIP_DOUBLE_DEVICES=gfx942 HIP_DOUBLE_MB=512
unset HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL HSA_OVERRIDE_GFX_VERSION
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
if ! "$code" "$yolo" gfx942; then echo "skipped: this build has no code for gfx942"; exit 77; fi
failures=0
few_steps=8 many_steps=60 # of nbs: gradients that wait would be saved
calls() { # steps, settings …
  "$yolo" shapes dir="$work/$1" n_train="$1" n_val=1 size=64 >/dev/null
  HIP_DOUBLE_LOG="$work/calls-$1" timeout 60 "$yolo" detect train model="$few" data="$work/$1/data.yaml" epochs=1 batch=1 imgsz=64 workers=0 \
    warmup_epochs=0 mosaic=0 val=False save=False plots=False device=hip:0 project="$work" name=run exist_ok=True "${@:2}" >"$work/said" 2>&1 ||
    { echo "the run fails"; tail -3 "$work/said"; exit 1; }
}
expect() { # function, calls a step: at most, or exactly with =
  local more=$(($(grep -cx "$1" "$work/calls-$many_steps") - $(grep -cx "$1" "$work/calls-$few_steps"))) steps=$((many_steps - few_steps))
  local wanted=$((${2#=} * steps))
  if [ "$more" -gt "$wanted" ] || { [ "${2:0:1}" = = ] && [ "$more" -ne "$wanted" ]; }; then
    echo "$settings: $1 is called $more times in $steps steps, $2 a step wanted"
    failures=$((failures + 1))
  fi
}
for settings in "optimizer=SGD amp=False nbs=1" "optimizer=MuSGD amp=True nbs=1" "optimizer=AdamW amp=True nbs=4"; do
  for n in "$few_steps" "$many_steps"; do
    # shellcheck disable=SC2086 # words
    calls "$n" $settings
  done
  for name in hipMalloc hipFree hipEventCreateWithFlags hipStreamBeginCapture hipModuleGetFunction hipMemsetAsync; do expect "$name" 0; done
  expect hipGraphLaunch =1
  expect hipModuleLaunchKernel =1 # makes the pictures
  expect hipStreamSynchronize =1  # of their own stream
  expect hipEventSynchronize =2   # the step before, and who read the pictures before that
  expect hipMemcpyAsync =8        # pictures (2), targets, counts, gains (2), orders; the outcome
done
[ "$failures" = 0 ] && echo "steady steps: fine"
exit $((failures > 0))
