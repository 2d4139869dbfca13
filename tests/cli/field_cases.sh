#!/usr/bin/env bash
# usage: field_cases.sh path/to/yolo path/to/libonelook.so — what people ran into elsewhere, through the real program: names and folders that are not ASCII or hold `images` twice, grey pictures, sizes with few
# anchors, older instruction sets, the network, the environment of the host.
set -u
yolo="$(realpath "$1")"
fixtures="$(realpath "$(dirname "$0")/../fixtures")"
library="$(realpath "$2")"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
export CUDA_VISIBLE_DEVICES=-1 HIP_VISIBLE_DEVICES=-1 HOME="$work/home" ONELOOK_CONFIG_DIR="$work/home/config" XDG_CACHE_HOME="$work/home/cache" NO_COLOR=1
unset YOLO_VERBOSE YOLO_CONFIG_DIR ONELOOK_DATASETS
failures=0
fail() {
  failures=$((failures + 1))
  echo "$1"
  tail -4 out | sed 's/^/  | /'
}
works() { # NAME COMMAND… : ends with 0 and says nothing of errors; its words stay in ./out
  local name=$1
  shift
  "$@" > out 2>&1 < /dev/null || fail "$name: exit code $?"
  grep -q '^ERROR' out && fail "$name: an error"
}

cd "$work" || exit 1
# Nothing is asked of a network, no memory is shared through files, and a library leaves its host's environment alone.
if command -v nm > /dev/null; then
  nm -D --undefined-only "$library" "$yolo" | grep -wE 'socket|connect|getaddrinfo|gethostbyname|sendto|shm_open|mq_open|system|popen' > out && fail "calls that this program has no use for"
  nm -D --undefined-only "$library" | grep -wE 'setenv|putenv|unsetenv|fork|execv|execve|execvp|posix_spawn' > out && fail "the library changes its process"
fi

mkdir -p "$HOME" "$work/images/Bilder ü猫"
cd "$work/images/Bilder ü猫" || exit 1
cp "$fixtures/tiny.yaml" .
works "a set in such a folder" "$yolo" shapes dir=images n_train=8 n_val=4 size=96 # its pictures: images/…/images/images/train
sed 's/^train: /channels: 1\ntrain: /' images/data.yaml > grey.yaml
sed -i 's/^train: /path: images\ntrain: /' grey.yaml
common="imgsz=64 batch=4 plots=False device=cpu workers=1 epochs=1"

# shellcheck disable=SC2086
works "training there" "$yolo" train model=tiny.yaml data=images/data.yaml name=größe $common
grep -q "labels/train... 8 images, 0 backgrounds, 0 corrupt" out || fail "labels were not found beside the last 'images'"
colour=runs/detect/größe/weights/best.pt
works "prediction there" "$yolo" predict model="$colour" source=images/images/val imgsz=64 conf=0.0001 save_txt=True name=ergebnis device=cpu
[ "$(find runs/detect/ergebnis/labels -name '*.txt' | wc -l)" = 4 ] || fail "four label files are wanted"
works "export there" "$yolo" export model="$colour" format=onnx imgsz=64
[ -s runs/detect/größe/weights/best.onnx ] || fail "no best.onnx"

# Grey sets: colour files are converted, in every mode; a colour model is taken over.
# shellcheck disable=SC2086
works "grey training" "$yolo" train model=tiny.yaml data=grey.yaml name=grey $common
grey=runs/detect/grey/weights/best.pt
works "grey prediction of colour files" "$yolo" predict model=$grey source=images/images/val imgsz=64 conf=0.0001 device=cpu
grep -q "at shape (1, 1, 64, 64)" out || fail "one channel is wanted"
works "grey validation" "$yolo" val model=$grey data=grey.yaml imgsz=64 plots=False device=cpu
# A model gets pictures of its own channels, whatever the set says of itself: the same rows from both sets.
for model in $grey "$colour"; do
  for data in grey images/data; do
    works "val of $model on $data.yaml" "$yolo" val model="$model" data=$data.yaml imgsz=64 plots=False device=cpu conf=0.0001 save_txt=True save_conf=True name="val-${data##*/}" exist_ok=True
  done
  [ "$(find runs/detect/val-data/labels -name '*.txt' | wc -l)" = 4 ] || fail "four label files of $model are wanted"
  diff -r runs/detect/val-data/labels runs/detect/val-grey/labels > out || fail "$model: other rows on the grey set than on the colour set"
done
# shellcheck disable=SC2086
works "grey training from colour weights" "$yolo" train model="$colour" data=grey.yaml name=from-colour $common
grep -q "Transferred 270/270 items" out || fail "the first convolution was not taken over"

# Fewer anchors than max_det: 21 of them.
for nms in None False; do
  works "prediction at 32 pixels" "$yolo" predict model="$colour" source=images/images/val imgsz=32 conf=0 nms=$nms device=cpu
  works "validation at 32 pixels" "$yolo" val model="$colour" data=images/data.yaml imgsz=32 nms=$nms plots=False device=cpu
  works "export at 32 pixels" "$yolo" export model="$colour" format=onnx imgsz=32 nms=$nms
done
# shellcheck disable=SC2086
works "training at 32 pixels" "$yolo" train model=tiny.yaml data=images/data.yaml name=small $common imgsz=32

# The same boxes on older instruction sets.
for isa in SSE41 AVX2; do
  DNNL_MAX_CPU_ISA=$isa works "prediction with $isa" "$yolo" predict model="$colour" source=images/images/val imgsz=64 conf=0.0001 save_txt=True save_conf=False name=$isa device=cpu
  for f in runs/detect/ergebnis/labels/*.txt; do
    awk 'NR == FNR { for (k = 1; k <= 5; k++) have[NR, k] = $k; n = NR; next }
      { m++; found = 0
        for (i = 1; i <= n && !found; i++) {
          found = 1
          for (k = 1; k <= 5; k++) { d = $k - have[i, k]; if (d > 1e-4 || d < -1e-4) found = 0 }
        }
        lost += !found }
      END { exit n != m || lost > 0 }' "$f" "runs/detect/$isa/labels/${f##*/}" || fail "$isa: other boxes in ${f##*/}" # the order of nearly equal scores is free
  done
done

# More epochs than a finished run had are refused with a reason, not passed over.
"$yolo" train resume=True model=runs/detect/größe/weights/last.pt epochs=5 > out 2>&1 && fail "a finished run went on"
grep -q '^ERROR.*last.pt' out || fail "no reason is given"

echo "$failures failed"
[ "$failures" = 0 ]
