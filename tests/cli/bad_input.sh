#!/usr/bin/env bash
# usage: bad_input.sh path/to/yolo — wrong arguments, files and data through the real program. Every case must end with exit code 1
# and exactly one ERROR line that names the thing (the text given here), and leave nothing behind in its folder.
set -u
yolo="$(realpath "$1")"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
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

#MORE

echo "$n cases, $failures failed"
[ "$n" -ge 60 ] || { echo "at least 60 cases are wanted"; exit 1; }
[ "$failures" = 0 ]
