#!/usr/bin/env bash
# The whole job on a small drawn data set: draw, train until it detects, validate, predict, export. usage: tools/demo.sh [build]
set -euo pipefail
cd "$(dirname "$0")/.."
yolo="$PWD/${1:-build}/yolo"
out="$PWD/runs/demo"
rm -rf "$out"
mkdir -p "$out"

run() { printf '\n$ yolo %s\n' "$*"; "$yolo" "$@"; }
run shapes dir="$out/shapes"
run detect train model=yolo26n.yaml data="$out/shapes/data.yaml" epochs=80 batch=4 nbs=4 imgsz=256 optimizer=AdamW lr0=0.002 \
  mosaic=0.5 close_mosaic=20 device=cpu project="$out" name=train
run detect val model="$out/train/weights/best.pt" data="$out/shapes/data.yaml" imgsz=256 device=cpu project="$out" name=val
picture="$(find "$out/shapes/images/val" -type f | sort | head -1)"
run detect predict model="$out/train/weights/best.pt" source="$picture" imgsz=256 device=cpu project="$out" name=predict
run export model="$out/train/weights/best.pt" format=onnx imgsz=256

# column 8 of results.csv is metrics/mAP50(B); the best epoch's weights are best.pt
best="$(awk -F, 'NR > 1 && $9 > best { best = $9; map50 = $8 } END { print map50 }' "$out/train/results.csv")"
printf '\nval mAP50 of the best epoch: %s (at least 0.80 is expected)\n' "$best"
echo "the annotated picture:   $(find "$out/predict" -name '*.jpg' | head -1)"
echo "curves and val pictures: $out/train"
echo "the exported model:      $out/train/weights/best.onnx"
awk -v x="$best" 'BEGIN { exit !(x >= 0.80) }' || { echo "demo: mAP50 $best is below 0.80" >&2; exit 1; }
