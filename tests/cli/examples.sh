#!/usr/bin/env bash
# usage: examples.sh path/to/yolo folder/of/the/built/examples — the example programs do what their first lines say.
set -eu
yolo="$(realpath "$1")"
programs="$(realpath "$2")"
sources="$(realpath "$3")"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
export CUDA_VISIBLE_DEVICES=-1 HIP_VISIBLE_DEVICES=-1 # the same words with and without a GPU
export HOME="$work" ONELOOK_CONFIG_DIR="$work/config" XDG_CACHE_HOME="$work/cache"
cd "$work"
"$yolo" shapes dir=shapes n_train=8 n_val=4 size=64 > /dev/null
expect() { grep -qF -- "$1" "$2" || { echo "no '$1' in:"; cat "$2"; exit 1; }; }

"$programs/example_train" yolo26n.yaml shapes/data.yaml epochs=1 imgsz=64 batch=4 plots=False name=one > train.log
expect "1 epochs, mAP50 " train.log
"$programs/example_val" runs/detect/one/weights/best.pt shapes/data.yaml 64 > val.log
expect "circle" val.log
expect "mAP50-95" val.log
"$programs/example_predict" runs/detect/one/weights/best.pt shapes/images/val conf=0.001 imgsz=64 > predict.log
[ "$(grep -c ' boxes$' predict.log)" = 4 ] || { cat predict.log; exit 1; }
! "$programs/example_predict" runs/detect/one/weights/best.pt nowhere.jpg 2> error.log
expect "predict: " error.log
for source in "$sources"/*.c; do
  [ "$(wc -l < "$source")" -lt 60 ] || { echo "$source has 60 lines or more"; exit 1; }
done
