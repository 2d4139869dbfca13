#!/usr/bin/env bash
# The real program on a device and on the CPU: a small model with every kind of module, two training steps, a prediction; the
# numbers must agree. usage: tools/test_device.sh YOLO DEVICE
set -euo pipefail
yolo="${1:?the program}" device="${2:?device}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cat >"$work/small.yaml" <<'Y'
nc: 1
end2end: True
reg_max: 1
scale: t
scales:
  t: [0.5, 0.015625, 1024]
backbone:
  - [-1, 1, Conv, [512, 3, 2]]
  - [-1, 1, Conv, [1024, 3, 2]]
  - [-1, 1, C3k2, [1024, True]]
  - [-1, 1, SPPF, [1024, 5, 3, True]]
  - [-1, 1, C2PSA, [1024]]
head:
  - [-1, 1, Conv, [1024, 3, 2]]
  - [-1, 1, nn.Upsample, [None, 2, nearest]]
  - [[-1, 4], 1, Concat, [1]]
  - [-1, 1, C3k2, [1024, False]]
  - [[8], 1, Detect, [nc]]
Y
"$yolo" shapes dir="$work/shapes" n_train=4 n_val=1 size=64 >/dev/null
for d in cpu "$device"; do
  if ! "$yolo" detect train model="$work/small.yaml" data="$work/shapes/data.yaml" epochs=1 batch=2 nbs=2 imgsz=64 optimizer=SGD \
    lr0=0.01 warmup_epochs=0 mosaic=0 amp=False workers=0 seed=0 plots=False single_cls=True device="$d" project="$work" name="${d/:/_}" >"$work/log" 2>&1; then
    tail -20 "$work/log"
    exit 1
  fi
done
there="${device/:/_}"
for d in cpu "$device"; do
  "$yolo" detect predict model="$work/cpu/weights/last.pt" source="$work/shapes/images/val" imgsz=64 conf=0 max_det=300 save=False \
    save_txt=True save_conf=True device="$d" project="$work" name="found_${d/:/_}" >"$work/log" 2>&1 || { tail -20 "$work/log"; exit 1; }
done
# Numbers, comma- or blank-separated: same count; each within 0.1 % or 1e-4
compare() { # what, file, file
  awk -v what="$1" -F'[, ]+' 'function abs(x) { return x < 0 ? -x : x }
    FNR == NR { for (i = 1; i <= NF; i++) a[FNR "," i] = $i; n = FNR; next }
    { m = FNR; for (i = 1; i <= NF; i++) { x = a[FNR "," i]; y = $i; if (x == y) continue
        d = abs(x - y); if (x !~ /^[-+0-9.e]+$/ || d > 1e-4 + 1e-3 * abs(x)) { printf "%s: row %d column %d: %s on the CPU, %s here\n", what, FNR, i, x, y; bad = 1 } } }
    END { if (n != m || n == 0) { printf "%s: %d rows on the CPU, %d here\n", what, n, m; bad = 1 } exit bad }' "$2" "$3"
}
# the time column is no result
sed 's/^\([^,]*\),[^,]*,/\1,/' "$work/cpu/results.csv" >"$work/a.csv"
sed 's/^\([^,]*\),[^,]*,/\1,/' "$work/$there/results.csv" >"$work/b.csv"
compare results.csv "$work/a.csv" "$work/b.csv"
# all anchors of one class; scores of a model that has learnt nothing are nearly equal, so their order says nothing: by place
by_place() { awk '{ printf "%.2f %.2f %s\n", $2, $3, $0 }' "$work/$1"/labels/*.txt | sort | cut -d' ' -f3- >"$work/$2"; }
by_place found_cpu a.txt
by_place "found_$there" b.txt
compare predictions "$work/a.txt" "$work/b.txt"
echo "$device agrees with the CPU: 2 training steps ($(sed -n 2p "$work/b.csv" | cut -d, -f2-4)), $(wc -l <"$work/b.txt") predictions"
