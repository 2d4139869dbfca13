#!/usr/bin/env bash
# usage: device_failure.sh path/to/yolo folder/of/doubles [every N-th call]
# The runtime's calls fail in turn during a training run (a stand-in for AMD's runtime that computes nothing): every function at
# its first, second, middle and last call, with the device gone from then on; and allocations for want of memory. Wanted: an
# exit code of our own, one clear message, and the file of the last epoch whole.
set -u
few="$(realpath "$(dirname "$0")/../fixtures/few.yaml")"
yolo="$(realpath "$1")" code="$(realpath "$(dirname "$0")/../support/has_code.sh")"
every="${3:-0}"
export LD_LIBRARY_PATH="$2" LC_ALL=C.UTF-8 NO_COLOR=1 HIP_DOUBLE_DEVICES=gfx942 HIP_DOUBLE_MB=512
unset HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL HSA_OVERRIDE_GFX_VERSION
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
# A lost device's runtime does not take its page-locked memory back: no leak of ours.
echo "leak:libamdhip64" >"$work/kept"
export LSAN_OPTIONS="suppressions=$work/kept:print_suppressions=0"
if ! "$code" "$yolo" gfx942; then echo "skipped: this build has no code for gfx942"; exit 77; fi
"$yolo" shapes dir="$work/shapes" n_train=4 n_val=1 size=64 >/dev/null
failures=0 runs=0
bad() { echo "$1"; tail -4 "$work/said" | cut -c1-300; failures=$((failures + 1)); }
train() { # more settings …
  [ -n "${keep:-}" ] || rm -rf "$work/run"
  timeout 60 "$yolo" detect train model="$few" data="$work/shapes/data.yaml" epochs=3 batch=2 nbs=2 imgsz=64 optimizer=MuSGD \
    lr0=0.01 warmup_epochs=0 mosaic=0 amp=False workers=0 seed=0 plots=False device=hip:0 project="$work" name=run exist_ok=True \
    "$@" >"$work/said" 2>&1
}
results() { sed 's/^\([^,]*\),[^,]*,/\1,/' "$work/run/results.csv"; } # without the time
HIP_DOUBLE_LOG="$work/calls" train || bad "a run without failures fails"
total="$(wc -l <"$work/calls")" undisturbed="$(results)"
[ "$(grep -c '^[0-9]' <<<"$undisturbed")" = 3 ] || bad "a run without failures has not three epochs"
place() { grep -nx "$1" "$work/calls" | "$2" -1 | cut -d: -f1; }
last_copy=$(($(place hipMemcpyAsync tail) + 1)) recording="$(place hipStreamBeginCapture head)" recorded="$(place hipStreamEndCapture tail)"

# What a run can do without: calls after the last result has come home; once only, recordings and giving back.
harmless() { # number of the call, its name, lost or once
  [ "$1" -le "$last_copy" ] || return 0
  [ "$3" = once ] || return 1
  case "$2" in
    *Destroy | *Unload | hipFree | hipGraphInstantiate | hipStream*Capture) return 0 ;;
    hipHostMalloc | hipHostFree) return 0 ;; # page-locked memory is only faster
    hipModuleLaunchKernel) [ "$1" -gt "$recording" ] && [ "$1" -lt "$recorded" ] ;;
    *) return 1 ;;
  esac
}
# Plans that were only kept gave way, and the run went on to its end with the results of a run that nothing disturbed.
recovered() { [ "$(results)" = "$undisturbed" ] && [ -f "$work/run/weights/best.pt" ] && ! grep -qE '^(error|ERROR|❌)' "$work/said"; }
failing() { # number of the call, error, lost or once
  local name rc epochs
  name="$(sed -n "$1p" "$work/calls")"
  runs=$((runs + 1))
  if [ "$3" = lost ]; then export HIP_DOUBLE_LOST=1; else unset HIP_DOUBLE_LOST; fi
  HIP_DOUBLE_FAIL="$1:$2" train
  rc=$?
  unset HIP_DOUBLE_LOST
  case "$rc" in
    1) ;;
    0) [ "$2" = 2 ] && recovered || harmless "$1" "$name" "$3" || bad "call $1 ($name, error $2, $3): exit code 0"; return ;;
    *) bad "call $1 ($name, error $2, $3): exit code $rc" ;;
  esac
  [ "$(grep -cE '^(error|ERROR|❌)|hip:0:.*(error|out of memory)' "$work/said")" -ge 1 ] || bad "call $1 ($name, error $2, $3): no message"
  [ "$2" != 2 ] || grep -q 'out of memory' "$work/said" || bad "call $1 ($name): does not say that memory ran out"
  epochs="$(grep -c '^[0-9]' "$work/run/results.csv" 2>/dev/null || true)"
  # an epoch's row is written before its file: the first may have a row alone
  if [ "${epochs:-0}" -ge 2 ] || [ -f "$work/run/weights/last.pt" ]; then
    [ -f "$work/run/weights/last.pt" ] || { bad "call $1 ($name, $3): no last.pt after $epochs epochs"; return; }
    "$yolo" detect val model="$work/run/weights/last.pt" data="$work/shapes/data.yaml" imgsz=64 device=cpu plots=False project="$work" name=val exist_ok=True >"$work/said" 2>&1 ||
      bad "call $1 ($name, $3): last.pt is not whole"
    ! ls "$work"/run/weights/* | grep -qvE '/(last|best)\.pt$' || bad "call $1 ($name, $3): files are left over in weights"
  fi
}

if [ "$every" -gt 0 ]; then
  for ((n = 1; n <= total; n += every)); do failing "$n" 719 lost; done
else
  for name in $(sort -u "$work/calls"); do
    mapfile -t at < <(grep -nx "$name" "$work/calls" | cut -d: -f1)
    n="${#at[@]}"
    for i in $(printf '%s\n' 0 1 $((n / 2)) $((n - 1)) | sort -nu); do
      [ "$i" -lt "$n" ] || continue
      failing "${at[$i]}" 719 lost
      failing "${at[$i]}" 709 once
      case "$name" in hipMalloc | hipGraphInstantiate | hipModuleLoadData) failing "${at[$i]}" 2 once ;; esac
    done
  done
fi
# what an earlier run left in the folder is not offered
train || bad "a run without failures fails"
keep=1 HIP_DOUBLE_LOST=1 HIP_DOUBLE_FAIL="$recording:719" train && bad "recording fails and the run does not"
! grep -q 'resume=True' "$work/said" || bad "an earlier run's file is offered for going on"
# Too little memory: needed, free and the largest batch that fits are named. That batch needs nothing to give way; a larger one runs
# to its end after something has, or fails and names the same batch; twice as many do not fit.
too_large() { # what ended with an exit code of 1 names the largest batch
  sed -nE 's/.*out of memory while allocating .* needs [0-9.]+ [MG]iB with batch='"$1"', .* [MG]iB are free; the largest batch that fits is batch=([0-9]+).*/\1/p' "$work/said"
}
export HIP_DOUBLE_REFUSED="$work/refused" # a line for each allocation that did not fit
out_of_memory() { # MiB, batch, settings …: sets `largest`
  local mib="$1" asked="$2" batch rc
  shift 2
  export HIP_DOUBLE_MB="$mib"
  runs=$((runs + 1))
  train epochs=2 imgsz=256 batch="$asked" "$@" && { bad "batch=$asked fits $mib MiB"; return; }
  largest="$(too_large "$asked")"
  [ -n "$largest" ] || { bad "$mib MiB, batch=$asked: largest batch not named"; return; }
  for ((batch = largest; batch <= 2 * largest; batch++)); do
    rm -f "$work/refused"
    train epochs=2 imgsz=256 batch="$batch" "$@"
    rc=$?
    case "$rc" in
      0) [ "$(grep -c '^[0-9]' "$work/run/results.csv")" = 2 ] && [ -f "$work/run/weights/last.pt" ] || bad "$mib MiB, batch=$batch: exit code 0 without its epochs" ;;
      1) [ "$(too_large "$batch")" = "$largest" ] || bad "$mib MiB: batch=$batch does not fit, and batch=$largest is not named again" ;;
      *) bad "$mib MiB, batch=$batch: exit code $rc" ;;
    esac
    [ "$batch" -gt "$largest" ] || [ "$rc" = 0 ] || bad "$mib MiB: batch=$largest does not fit"
  done
  [ "$rc" = 1 ] || [ "$largest" = 1 ] || bad "$mib MiB: batch=$((2 * largest)) fits too"
}
"$yolo" shapes dir="$work/shapes" n_train=64 n_val=1 size=64 >/dev/null
for case in '48 64' '96 64' '192 64'; do
  out_of_memory $case
  for batch in "$largest" $((largest + 1)); do
    rm -f "$work/refused"
    train epochs=2 imgsz=256 batch="$batch"
    [ "$batch" = "$largest" ] && { [ ! -s "$work/refused" ] || bad "$case: batch=$batch, the largest that fits, makes something give way"; }
    [ "$batch" = "$largest" ] || [ -s "$work/refused" ] || bad "$case: batch=$largest is named, but batch=$batch fits too"
  done
done
# What is named also holds a validation of full batches, whose pictures are padded: there plans that are kept for few and for many
# objects a picture may give way to each other.
"$yolo" shapes dir="$work/many" n_train=64 n_val=67 size=64 >/dev/null
for mib in 48 96 192; do
  HIP_DOUBLE_MB="$mib" train epochs=2 data="$work/many/data.yaml" imgsz=256 batch=-1 || bad "batch=-1 does not hold a validation in $mib MiB"
  out_of_memory "$mib" 64 data="$work/many/data.yaml"
done
# What an optimizer needs of its own is counted in: MuSGD's matrices most, SGD's one state least.
named=""
for optimizer in SGD AdamW MuSGD; do
  HIP_DOUBLE_MB=144 train model=yolo26n.yaml epochs=1 batch=64 optimizer="$optimizer" && bad "$optimizer: batch=64 fits 144 MiB"
  largest="$(too_large 64)"
  rm -f "$work/refused"
  HIP_DOUBLE_MB=144 train model=yolo26n.yaml epochs=1 batch="${largest:-64}" optimizer="$optimizer" || bad "$optimizer: batch=$largest does not fit"
  [ ! -s "$work/refused" ] || bad "$optimizer: batch=$largest, the largest that fits, makes something give way"
  [ -z "$named" ] || [ "$largest" -lt "$named" ] || bad "$optimizer: batch=$largest is named, no less than for an optimizer that takes less"
  named="$largest"
done
unset HIP_DOUBLE_REFUSED
# plans of several sizes give way to the one that is needed
HIP_DOUBLE_MB=96 train epochs=2 data="$work/many/data.yaml" imgsz=256 multi_scale=0.5 batch=-1 || bad "batch=-1 does not hold batches of several sizes"
for mib in 80 144; do
  HIP_DOUBLE_MB="$mib" train epochs=3 data="$work/many/data.yaml" imgsz=256 rect=True batch=-1 || bad "batch=-1 does not hold batches of several shapes in $mib MiB"
done
# a prediction goes on without page-locked memory
cp "$work/run/weights/last.pt" "$work/model.pt"
predict() {
  timeout 60 "$yolo" predict model="$work/model.pt" source="$work/many/images/val" batch=4 device=hip:0 save=False project="$work" \
    name=predict exist_ok=True "$@" >"$work/said" 2>&1
}
HIP_DOUBLE_LOG="$work/calls" predict imgsz=64 || bad "a prediction without failures fails"
for n in $(grep -nx hipHostMalloc "$work/calls" | cut -d: -f1); do
  HIP_DOUBLE_FAIL="$n:2" predict imgsz=64 || bad "a prediction needs page-locked memory (call $n)"
done
# more elements than 32 bits count are refused before memory is asked for
sed 's/^nc: 1$/nc: 60000/' "$few" >"$work/wide.yaml"
predict model="$work/wide.yaml" imgsz=640 && bad "more elements than a launch can count are run"
grep -q "more than one launch can count" "$work/said" || bad "too many elements: no remedy"
sed '/^nc:/d; /^names:/,$d' "$work/shapes/data.yaml" >"$work/shapes/wide.yaml"
{ echo "names:"; seq 0 65535 | sed 's|.*|  &: c&|'; } >>"$work/shapes/wide.yaml"
HIP_DOUBLE_MB=512 train epochs=1 data="$work/shapes/wide.yaml" && bad "more classes than a grid has rows are run"
grep -q "more than one launch can count" "$work/said" || bad "too many classes: no remedy"
HIP_DOUBLE_MB=4 train imgsz=256 batch=2 && bad "2 pictures fit 4 MiB"
grep -q "not even one picture fits" "$work/said" || bad "4 MiB: no remedy"
HIP_DOUBLE_MB=96 train epochs=1 imgsz=256 batch=-1 || bad "batch=-1 does not fit 96 MiB"
grep -q "AutoBatch: batch=" "$work/said" || bad "batch=-1: the batch is not named"
[ "$failures" = 0 ] && echo "device failures: $runs runs of $total calls, fine"
exit $((failures > 0))
