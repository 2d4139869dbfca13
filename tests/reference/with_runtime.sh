#!/usr/bin/env bash
# usage: with_runtime.sh SCRIPT.py YOLO MODEL.safetensors — runs a check of exports with an interpreter that has onnx and onnxruntime:
# ONELOOK_REFERENCE_PYTHON, else python3. Skipped (77) where it lacks them.
set -u
here="$(cd "$(dirname "$0")" && pwd)"
python="${ONELOOK_REFERENCE_PYTHON:-python3}"
"$python" -c 'import numpy, onnx, onnxruntime' 2>/dev/null || { echo "skipped: $python lacks onnx or onnxruntime"; exit 77; }
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
yolo="$(realpath "$2")"
cp "$3" "$work/model.safetensors" && cd "$work" || exit 1
export CUDA_VISIBLE_DEVICES=-1 HIP_VISIBLE_DEVICES=-1 HOME="$work/home" OMP_NUM_THREADS=1
"$python" "$here/$1" "$yolo" model.safetensors
