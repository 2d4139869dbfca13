#!/usr/bin/env bash
# usage: bad_input.sh path/to/yolo — wrong arguments, files and data through the real program. Every case must end with exit code 1
# and exactly one ERROR line that names the thing (the text given here), and leave nothing behind in its folder.
set -u
yolo="$(realpath "$1")"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
export CUDA_VISIBLE_DEVICES=-1 HIP_VISIBLE_DEVICES=-1 # the same words with and without a GPU
export HOME="$work/home" ONELOOK_CONFIG_DIR="$work/home/config" XDG_CACHE_HOME="$work/home/cache" NO_COLOR=1
unset YOLO_VERBOSE YOLO_CONFIG_DIR ONELOOK_DATASETS
n=0
failures=0

# bad 'text that the error line must hold' arguments…   (in the folder $work/case, whose files must stay as they are)
bad() {
  local expected="$1"
  shift
  n=$((n + 1))
  (cd "$work/case" && find . -type f | sort | xargs -r md5sum; find . | sort) > "$work/before"
  (cd "$work/case" && timeout 60 "$yolo" "$@" > "$work/out" 2>&1 < /dev/null)
  local code=$? errors
  errors="$(grep -c '^ERROR' "$work/out")"
  (cd "$work/case" && find . -type f | sort | xargs -r md5sum; find . | sort) > "$work/after"
  local why=""
  [ "$code" = 1 ] || why="exit code $code"
  [ "$errors" = 1 ] || why="$why, $errors ERROR lines"
  grep '^ERROR' "$work/out" | grep -qF -- "$expected" || why="$why, no '$expected'"
  cmp -s "$work/before" "$work/after" || why="$why, files changed: $(diff "$work/before" "$work/after" | grep '^[<>]' | head -3 | tr '\n' ' ')"
  if [ -n "$why" ]; then
    failures=$((failures + 1))
    echo "case $n: yolo $*"
    echo "  ${why#, }"
    tail -4 "$work/out" | sed 's/^/  | /'
  fi
}
# The data yaml $1 with pictures from the drawn set and the lines given on stdin instead of its own.
yaml() { cat > "$work/case/$1"; }

mkdir -p "$HOME" "$work/case"
cd "$work/case" || exit 1
"$yolo" shapes dir=shapes n_train=4 n_val=2 size=64 > /dev/null || exit 1
picture="$(find shapes/images/val -type f | sort | head -1)"
model=model=yolo26n.yaml

# --- arguments
bad "'hip:0' means nothing to 'yolo selftest'; arguments have the form device=" selftest hip:0
bad "'device' means nothing to 'yolo selftest'" selftest --device cpu
bad "'here' means nothing to 'yolo shapes'; arguments have the form dir=" shapes here n_train=1
bad "'modle' is not a valid YOLO argument" predict modle=x
bad "'frobnicate' is not a valid YOLO argument" frobnicate
bad "'imgsz' is a valid YOLO argument but is missing an '=' sign" predict imgsz
bad "'imgsz=' has no value" predict imgsz=
bad "has an unmatched" predict 'device=[0, 1'
bad "'conf=2' is an invalid value" predict conf=2
bad "'iou=-0.1' is an invalid value" predict iou=-0.1
bad "'max_det=0' is an invalid value" predict max_det=0
bad "'classes=cat' is invalid" predict classes=cat
bad "'imgsz=0' is an invalid value" predict imgsz=0
bad "'imgsz=[1, 2, 3]' is an invalid value" predict imgsz=1,2,3
bad "'batch=0' is an invalid value" predict batch=0
bad "'save_txt=3' is of invalid type int" predict save_txt=3
bad "'epochs=0' is an invalid value" train epochs=0
bad "'epochs=1.5' is of invalid type float" train epochs=1.5
bad "'lr0=None' is invalid" train lr0=none
bad "'time=-1' is an invalid value" train $model data=shapes time=-1
bad "'optimizer=foo' is invalid" train optimizer=foo
bad "'amp=fp8' is invalid" train amp=fp8
bad "'fraction=0.0' is invalid" train fraction=0.0
bad "'freeze=x' is invalid" train freeze=x
bad "'cache=sometimes' is invalid" train cache=sometimes
bad "'scale=[1.2, 0.8]' is an invalid value" train 'scale=(1.2,0.8)'
bad "'task=juggle' is invalid" task=juggle train
bad "'split=dev' is invalid" val split=dev
bad "'opset=0' is an invalid value" export opset=0
bad "cannot open 'absent.yaml'" train cfg=absent.yaml
bad "'track' is not supported yet" track $model
bad "'device=0' cannot be used" predict $model source="$picture" device=0
bad "'device=cuda:1' cannot be used" predict $model source="$picture" device=cuda:1
bad "'device=hip:0' cannot be used" predict $model source="$picture" device=hip:0
bad "'device=[0, 1]' cannot be used" predict $model source="$picture" 'device=[0,1]'
bad "'device=toaster' is not a device" predict $model source="$picture" device=toaster
bad "'device=mps' is not supported" predict $model source="$picture" device=mps
bad "'batch=0.5' is for training" predict $model source="$picture" batch=0.5
bad "'source' is missing" predict $model
bad "'a?b' is not a valid YOLO argument" $'a\nb'
bad "'model=a?b.pt' does not exist" predict $'model=a\nb.pt' source="$picture"
bad "'task=segment' is not supported yet" segment predict source="$picture"
bad "'imgsz=9000' is an invalid value" predict $model source="$picture" imgsz=9000
printf 'epochs: 3\nlearning_rate: 1\n' > cfg.yaml
bad "cfg.yaml:2: 'learning_rate' is not a valid" train cfg=cfg.yaml
printf 'epochs: [1\nbox: 3\n' > cfg.yaml
bad "cfg.yaml:2: not valid YAML" train cfg=cfg.yaml
printf 'epochs: many\n' > cfg.yaml
bad "cfg.yaml:1: 'epochs=many' is of invalid type" train cfg=cfg.yaml

# --- sources and pictures
bad "nowhere.jpg" predict $model source=nowhere.jpg
mkdir -p empty
bad "empty" predict $model source=empty
bad "*.webp" predict $model 'source=*.webp'
echo "not a picture" > text.jpg
bad "text.jpg" predict $model source=text.jpg
: > nothing.png
bad "nothing.png" predict $model source=nothing.png
head -c 200 "$picture" > cut.png
bad "cut.png" predict $model source=cut.png
printf 'GIF89a\1\0\1\0\0\0\0;' > moving.gif
bad "moving.gif" predict $model source=moving.gif
echo "nowhere.jpg" > list.txt
bad "nowhere.jpg" predict $model source=list.txt
bad "https://" predict $model source=https://example.com/a.jpg
bad "camera" predict $model source=0
printf '\x89PNG\r\n\x1a\n\0\0\0\rIHDR\x7f\xff\xff\xff\x7f\xff\xff\xff\x08\x02\0\0\0' > huge.png
bad "huge.png" predict $model source=huge.png
mkfifo pipe.jpg
bad "'$work/case/pipe.jpg': it is a pipe" predict $model source=pipe.jpg
rm pipe.jpg # the table reads every file of its folder

# --- weights
bad "'model=absent.pt' does not exist" predict model=absent.pt source="$picture"
bad "'model=absent.yaml' does not exist" predict model=absent.yaml source="$picture"
bad "'model=empty' is a folder" predict model=empty source="$picture"
: > zero.pt
bad "zero.pt" predict model=zero.pt source="$picture"
echo "<html>404</html>" > page.pt
bad "page.pt" predict model=page.pt source="$picture"
printf 'PK\3\4 and then nothing' > cut.pt
bad "cut.pt" predict model=cut.pt source="$picture"
printf '\x80\x02}q\0.' > pickle.pt
bad "pickle.pt" predict model=pickle.pt source="$picture"
echo "weights" > weights.bin
bad "weights.bin" predict model=weights.bin source="$picture"
echo "x" > m.onnx
bad "m.onnx" predict model=m.onnx source="$picture"

# --- architectures
yaml bad.yaml <<< "nc: 3"
bad "bad.yaml" predict model=bad.yaml source="$picture"
yaml bad.yaml <<< "[1, 2"
bad "bad.yaml" predict model=bad.yaml source="$picture"
yaml bad.yaml <<< $'nc: 3\nreg_max: 1\nend2end: True\nbackbone:\n  - [-1, 1, Teleport, [64, 3, 2]]\nhead:\n  - [[0], 1, Detect, [nc]]'
bad "Teleport" predict model=bad.yaml source="$picture"
yaml bad.yaml <<< $'nc: 3\nreg_max: 1\nend2end: True\nbackbone:\n  - [7, 1, Conv, [64, 3, 2]]\nhead:\n  - [[0], 1, Detect, [nc]]'
bad "bad.yaml:5" predict model=bad.yaml source="$picture"
yaml bad.yaml <<< $'nc: -3\nreg_max: 1\nend2end: True\nbackbone:\n  - [-1, 1, Conv, [64, 3, 2]]\nhead:\n  - [[0], 1, Detect, [nc]]'
bad "nc" predict model=bad.yaml source="$picture"
yaml bad.yaml <<< $'nc: 3\nreg_max: 1\nend2end: True\nbackbone:\n  - [-1, 1, Conv, [99999999999, 3, 2]]\nhead:\n  - [[0], 1, Detect, [nc]]'
bad "bad.yaml:5" predict model=bad.yaml source="$picture"

# --- data sets
train=(train $model epochs=1 imgsz=64 batch=2 plots=False)
data() { yaml data.yaml; }
bad "absent.yaml" "${train[@]}" data=absent.yaml
bad "absent.yaml" val $model data=absent.yaml imgsz=64
bad "'data' is missing" val $model imgsz=64
: > data.yaml
bad "data.yaml" "${train[@]}" data=data.yaml
data <<< "[1, 2"
bad "data.yaml:" "${train[@]}" data=data.yaml
data <<< "- a"
bad "data.yaml" "${train[@]}" data=data.yaml
data <<< $'val: shapes/images/val\nnames: [a]'
bad "train" "${train[@]}" data=data.yaml
data <<< $'train: shapes/images/train\nnames: [a, b, c, d]'
bad "val" "${train[@]}" data=data.yaml
data <<< $'train: shapes/images/train\nval: shapes/images/val'
bad "names" "${train[@]}" data=data.yaml
data <<< $'train: shapes/images/train\nval: shapes/images/val\nnc: 3\nnames: [a, b]'
bad "nc" "${train[@]}" data=data.yaml
data <<< $'train: shapes/images/train\nval: shapes/images/val\nnc: 0\nnames: []'
bad "data.yaml" "${train[@]}" data=data.yaml
data <<< $'train: shapes/images/nowhere\nval: shapes/images/val\nnames: [a, b, c, d]'
bad "nowhere" "${train[@]}" data=data.yaml
data <<< $'path: nowhere\ntrain: images/train\nval: images/val\nnames: [a, b, c, d]'
bad "nowhere" "${train[@]}" data=data.yaml
data <<< $'train: empty\nval: shapes/images/val\nnames: [a, b, c, d]'
bad "empty" "${train[@]}" data=data.yaml
data <<< $'train: shapes/images/train\nval: shapes/images/val\nnames: {0: a, 2: b}'
bad "names" "${train[@]}" data=data.yaml
bad "no 'test' entry" val $model data=shapes/data.yaml split=test imgsz=64

# --- labels: a set whose only picture has the label file given on stdin
labels() {
  rm -rf one
  mkdir -p one/images/train one/labels/train
  cp shapes/images/train/000.png one/images/train/a.png
  cat > one/labels/train/a.txt
  data <<< $'path: one\ntrain: images/train\nval: images/train\nnames: [a, b]'
}
labels <<< "0 0.5 0.5 0.2"
bad "4 columns detected" "${train[@]}" data=data.yaml
labels <<< "zero 0.5 0.5 0.2 0.2"
bad "'zero' is not a number" "${train[@]}" data=data.yaml
labels <<< "0 0.5 0.5 nan 0.2"
bad "'nan' is not a finite number" "${train[@]}" data=data.yaml
labels <<< "7 0.5 0.5 0.2 0.2"
bad "Label class 7 exceeds dataset class count 2" "${train[@]}" data=data.yaml
labels <<< "-1 0.5 0.5 0.2 0.2"
bad "negative label values [-1]" "${train[@]}" data=data.yaml
labels <<< "0 50 50 20 20"
bad "non-normalized or out of bounds coordinates [50]" "${train[@]}" data=data.yaml
labels < /dev/null
bad "hold no objects" "${train[@]}" data=data.yaml
labels <<< "0 0.5 0.5 0.2 0.2"
echo "not a picture" > one/images/train/a.png
bad "a.png" "${train[@]}" data=data.yaml

# --- training and resuming
bad "imgsz=32" "${train[@]}" data=shapes/data.yaml imgsz=32 batch=1
bad "freeze" "${train[@]}" data=shapes/data.yaml freeze=24
bad "'distill_model=big.pt' is not supported" "${train[@]}" data=shapes/data.yaml distill_model=big.pt
bad "'quantize' takes 16 or 32 for predict" predict $model source="$picture" quantize=8
bad "last.pt" train resume=True $model
bad "absent.pt" "${train[@]}" data=shapes/data.yaml pretrained=absent.pt
"$yolo" "${train[@]}" data=shapes/data.yaml project="$work/runs" name=done > /dev/null 2>&1 || echo "the run to break files of failed"
cp "$work/runs/done/weights/last.pt" done.pt
bad "done.pt" train resume=True model=done.pt
head -c 100000 done.pt > half.pt
bad "half.pt" predict model=half.pt source="$picture"
bad "half.pt" train resume=half.pt
{ head -c 3000 done.pt; head -c 200000 /dev/zero; tail -c +203001 done.pt; } > holes.pt
bad "holes.pt" predict model=holes.pt source="$picture"
printf '\x08\0\0\0\0\0\0\0{"a":12}' > short.safetensors
bad "short.safetensors" predict model=short.safetensors source="$picture"

# --- export
cp done.pt export.pt
bad "Invalid export format='juggle'" export model=export.pt format=juggle
bad "'format=engine' is not supported yet" export model=export.pt format=engine
bad "'opset=5' is out of range" export model=export.pt format=onnx opset=5
bad "argument 'workspace' is not supported" export model=export.pt format=onnx workspace=4
bad "'quantize'" export model=export.pt format=onnx quantize=8
mkdir export.onnx
bad "export.onnx" export model=export.pt format=onnx

echo "$n cases, $failures failed"
[ "$n" -ge 60 ] || { echo "at least 60 cases are wanted"; exit 1; }
[ "$failures" = 0 ]
