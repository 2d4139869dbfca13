#!/usr/bin/env bash
# One predict of the demo's model (or of a fresh yaml model) under valgrind: no leak, no invalid access.
set -euo pipefail
cd "$(dirname "$0")/.."
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
build/yolo shapes dir="$work/shapes" n_train=2 n_val=1 >/dev/null
picture="$(find "$work/shapes/images/val" -type f | head -1)"
model=runs/demo/train/weights/best.pt
[ -f "$model" ] || model=yolo26n.yaml
# oneDNN's generated kernels and OpenMP's pools stay reachable at exit; definite leaks and invalid accesses are ours
OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive valgrind --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite \
  build/yolo predict model="$model" source="$picture" imgsz=64 device=cpu project="$work" name=predict
