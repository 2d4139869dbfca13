#!/usr/bin/env bash
# usage: arguments.sh path/to/yolo — an argument either counts or is answered with a warning. Trains tiny networks twice over, with and without an argument, and
# compares what the runs leave behind; and every argument of `yolo cfg` must stand in one of the lists here, so that a new one is thought about.
set -u
yolo="$(realpath "$1")"
fixtures="$(realpath "$(dirname "$0")/../fixtures")"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
export CUDA_VISIBLE_DEVICES=-1 HIP_VISIBLE_DEVICES=-1 HOME="$work/home" ONELOOK_CONFIG_DIR="$work/home/config" XDG_CACHE_HOME="$work/home/cache" NO_COLOR=1
unset YOLO_VERBOSE YOLO_CONFIG_DIR ONELOOK_DATASETS
failures=0
known=""
mkdir -p "$HOME"
cd "$work" || exit 1
cp "$fixtures/tiny.yaml" .
"$yolo" shapes dir=shapes n_train=8 n_val=4 size=96 > /dev/null || exit 1

fail() {
  failures=$((failures + 1))
  echo "$1"
  grep -E 'WARNING|ERROR' out | head -5 | sed 's/^/  | /'
}
knows() { known="$known $1"; }

declare -A base=(
  [train]="model=tiny.yaml data=shapes/data.yaml imgsz=64 epochs=2 batch=4 nbs=4 workers=1 plots=False optimizer=SGD warmup_epochs=1 device=cpu"
  [val]="model=m.pt data=shapes/data.yaml imgsz=64 conf=0.0005 plots=False device=cpu"
  [predict]="model=m.pt source=shapes/images/val imgsz=64 conf=0.0005 save=True device=cpu"
  [export]="model=m.pt format=onnx imgsz=64 device=cpu")
# run MODE argument… : the run's files in ./runs, its words in ./out
run() {
  local mode=$1
  shift
  rm -rf runs
  # shellcheck disable=SC2086
  "$yolo" "$mode" ${base[$mode]} "$@" > out 2>&1 < /dev/null || fail "yolo $mode $* failed"
}
# What a run left: table without its clock, everything but weights and arguments byte by byte; and what it said without speeds.
left() {
  (find runs -type f 2> /dev/null | sort | while read -r f; do
    case $f in
      */results.csv) cut -d, -f1,3- "$f" ;;
      *.pt | */args.yaml) echo "$f" ;;
      *) md5sum "$f" ;;
    esac
  done
  grep -E '^ +(all|circle|square|triangle|star) ' out) | md5sum
}
changes() { # MODE argument… : with them something else comes out
  local mode=$1
  shift
  run "$mode" "$@"
  [ "$(left)" != "$(cat "left.$mode")" ] || fail "yolo $mode $* changes nothing"
}
same() { # MODE argument… : says nothing and changes nothing, as it should
  local mode=$1
  shift
  run "$mode" "$@"
  [ "$(left)" = "$(cat "left.$mode")" ] || fail "yolo $mode $* changes something"
  grep -q "WARNING.*'${1%%=*}'" out && fail "yolo $mode $* warns"
}
warns() { # MODE argument… : a warning that names the last one
  local mode=$1 last
  shift
  last="${*: -1}"
  run "$mode" "$@"
  [ "$(grep -c "WARNING.*'${last%%=*}[=']" out)" = 1 ] || fail "yolo $mode $*: no warning, or more than one"
  grep -c WARNING out | grep -qx 1 || fail "yolo $mode $*: other warnings"
}
never() { # argument=value… : count in no mode; one warning each
  run predict "$@"
  for word in "$@"; do
    knows "${word%%=*}"
    [ "$(grep -c "^WARNING ⚠️ '${word%%=*}' " out)" = 1 ] || fail "yolo predict $word: no warning, or more than one"
  done
  [ "$(grep -c WARNING out)" = $# ] || fail "other warnings than those about $*"
}

run train name=first
cp runs/detect/first/weights/best.pt m.pt
for mode in train val predict; do
  run $mode
  left > left.$mode
done

never deterministic=False compile=True channels_last=True simplify=False dis=2 profile=True dnn=True vid_stride=2 stream_buffer=True visualize=True augment=True embed=3 show=True \
  save_frames=True tracker=bytetrack.yaml overlap_mask=False mask_ratio=2 retina_masks=True dropout=0.5 auto_augment=augmix erasing=0.1 pose=2 kobj=2 rle=2 angle=2 dlog=2 dgrad=2 dlam=0.5
warns train deterministic=False
warns val augment=True
warns export simplify=False
printf 'dropout: 0.3\nepochs: 7\nerasing: 0.4\n' > cfg.yaml
run predict cfg=cfg.yaml # a file may serve all modes: only what counts nowhere is named, and only where it is not the default
[ "$(grep WARNING out)" = "WARNING ⚠️ 'dropout' is for classify models and changes nothing here" ] || fail "cfg=cfg.yaml: other warnings"

# In another mode than its own
warns predict epochs=3
warns predict data=shapes/data.yaml
warns predict workers=3
warns val mosaic=0.5
warns val save_crop=True
warns train split=train
warns export save_txt=True
same predict epochs=100
same val save=True

# Under a condition that is not met
warns predict save_conf=True
warns val quantize=16
warns val fraction=0.5
warns train amp=bf16
warns train copy_paste=0.5
changes val split=train fraction=0.5

# In their own mode they count
for word in time=0.000001 single_cls=True close_mosaic=0 fraction=0.5 freeze=2 multi_scale=0.5 seed=3 save_period=1 val=False plots=True classes=0 cls_pw=0.5 nbs=8 momentum=0.5 weight_decay=0.05 warmup_epochs=0 \
  dfl=3 bgr=1 optimizer=AdamW save_json=True; do
  changes train $word
  knows "${word%%=*}"
done
run train epochs=3
left > left.three
run train epochs=3 cos_lr=True
[ "$(left)" != "$(cat left.three)" ] || fail "cos_lr changes nothing"
run train close_mosaic=0
left > left.mosaic
for word in mosaic=0 mixup=1 cutmix=1 perspective=0.001; do
  run train close_mosaic=0 $word
  [ "$(left)" != "$(cat left.mosaic)" ] || fail "$word changes nothing"
  knows "${word%%=*}"
done
same train rect=False # training validates in rectangular batches, whatever it trains on
same train workers=0  # the speed only
for word in split=train save_json=True save_txt=True plots=True classes=0; do
  changes val $word
  knows "${word%%=*}"
done
for word in max_det=5 conf=0.9 nms=False classes=0 save_txt=True save_crop=True show_labels=False show_conf=False show_boxes=False line_width=5 save=False imgsz=96; do
  changes predict $word
  knows "${word%%=*}"
done

# Looked at elsewhere: paths and folders, resume, precision on GPUs, NMS, matching and augmentation by goldens, exports, and what every run of the trajectories would miss
knows "task mode model data patience cache device workers project name exist_ok pretrained cls_remap verbose rect cos_lr resume amp iou quantize source agnostic_nms save_conf format optimize dynamic opset workspace"
knows "epochs batch imgsz lr0 lrf box cls hsv_v degrees translate scale shear flipud fliplr warmup_momentum warmup_bias_lr distill_model hsv_h hsv_s copy_paste copy_paste_mode cfg"
for name in $("$yolo" cfg | grep -oE '^[a-z_0-9]+:' | tr -d :); do
  case " $known " in *" $name "*) ;; *) fail "'$name' stands in no list of this test" ;; esac
done

echo "$failures failed"
[ "$failures" = 0 ]
