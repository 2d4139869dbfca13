#!/usr/bin/env bash
# Checks what we write with the reference package: weights, a resumable file and ONNX exports. usage: run.sh YOLO SHARED
# Skipped (77) without ONELOOK_REFERENCE_PYTHON, an interpreter that has the package, onnx and onnxruntime, and without the
# shared folder's weights and pictures.
set -u
yolo="$(realpath "$1")"
shared="${ONELOOK_SHARED:-$2}"
python="${ONELOOK_REFERENCE_PYTHON:-}"
here="$(cd "$(dirname "$0")" && pwd)"
[ -n "$python" ] || { echo "skipped: ONELOOK_REFERENCE_PYTHON names no interpreter"; exit 77; }
[ -f "$shared/weights/yolo26n-coco128.pt" ] || { echo "skipped: no weights in $shared"; exit 77; }
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
export YOLO_OFFLINE=1 YOLO_CONFIG_DIR="$work/config" YOLO_AUTOINSTALL=false OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}"
weights="$shared/weights/yolo26n-coco128.pt"
pictures="$shared/data/coco8/images/train"
failures=0

step() { # NAME COMMAND…: one line when it works, its output when it does not
  local name="$1"; shift
  if "$@" >"$work/log" 2>&1; then echo "$name: fine"; else echo "$name: FAILED"; tail -8 "$work/log"; failures=$((failures + 1)); fi
}

cp "$weights" "$work/w.pt" && chmod u+w "$work/w.pt" && cd "$work" || exit 1
mkdir data && cp -r "$shared/data/coco8/." data/ && chmod -R u+w data
{ echo "path: $work/data"; echo "train: images/train"; echo "val: images/val"; echo "names:"; for i in $(seq 0 79); do echo "  $i: c$i"; done; } >data.yaml

# ours -> theirs: weights and a resumable checkpoint
mkdir pt && step "export .pt" "$yolo" export model=w.pt format=pt
step "train two epochs" "$yolo" detect train model=w.pt data=data.yaml epochs=2 imgsz=64 batch=4 nbs=4 optimizer=SGD save_period=1 \
  project="$work/runs" name=ours plots=False
written="$(ls w-exported.pt 2>/dev/null | head -1)"
[ -n "$written" ] || written=w.pt
step "checkpoints in the reference package" "$python" "$here/check_checkpoint.py" "$weights" "$written" "$shared/data/coco8" runs/ours/weights/epoch0.pt

# theirs -> ours: a run of the reference stopped after its first epoch, resumed here
step "stop a run of the reference" "$python" "$here/interrupted_run.py" w.pt data.yaml "$work/runs" theirs
step "resume it" "$yolo" detect train resume=runs/theirs/weights/last.pt
step "results of both" test "$(wc -l <runs/theirs/results.csv)" = 4

# exports
while read -r name arguments; do
  tolerance="${arguments#*@}"; arguments="${arguments%@*}"
  # shellcheck disable=SC2086
  step "export $name" "$yolo" export model=w.pt format=onnx $arguments
  mv -f w.onnx "$name.onnx" 2>/dev/null
  step "check $name" "$python" "$here/check_onnx.py" "$weights" "$name.onnx" pictures="$pictures" $tolerance
done <<'ROWS'
plain imgsz=640@predict
end2end imgsz=640 nms=False@predict
suppressed imgsz=640 nms=True@predict
dynamic imgsz=320 dynamic=True@batch=2 sizes=320,320;256,192 predict
half imgsz=320 quantize=16@tolerance=2e-3
opset11 imgsz=160 opset=11 batch=2@tolerance=1e-4
few_anchors imgsz=64 nms=False dynamic=True@batch=3
ROWS
exit $((failures > 0))
