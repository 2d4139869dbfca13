#!/usr/bin/env bash
# usage: interrupt.sh path/to/yolo — Ctrl-C in a training run: exit code 130, whole files, and a last.pt that goes on to the end.
set -u
yolo="$(realpath "$1")"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
export CUDA_VISIBLE_DEVICES=-1 HIP_VISIBLE_DEVICES=-1 # the same words with and without a GPU
export HOME="$work" ONELOOK_CONFIG_DIR="$work/config" XDG_CACHE_HOME="$work/cache"
cd "$work" || exit 1
fail() { echo "$1"; tail -5 train.log; exit 1; }
"$yolo" shapes dir=shapes n_train=8 n_val=2 size=64 > /dev/null
"$yolo" train model=yolo26n.yaml data=shapes/data.yaml epochs=40 batch=2 nbs=2 imgsz=64 optimizer=SGD plots=False name=run > train.log 2>&1 &
pid=$!
for _ in $(seq 600); do
  [ -f runs/detect/run/weights/last.pt ] && break
  kill -0 $pid 2> /dev/null || fail "the run ended before it was interrupted"
  sleep 0.1
done
kill -INT $pid
wait $pid
code=$?
[ $code = 130 ] || fail "exit code $code after an interrupt, not 130"
[ -z "$(find runs -name '*.tmp*')" ] || fail "temporary files are left: $(find runs -name '*.tmp*')"
rows=$(wc -l < runs/detect/run/results.csv)
[ "$rows" -ge 2 ] && [ "$rows" -le 40 ] || fail "results.csv has $rows lines"

# files may be links to where there is room: last.pt stays one, best.pt is a copy and not another name for it
mkdir room && mv runs/detect/run/weights/last.pt room/ && ln -s "$work/room/last.pt" runs/detect/run/weights/last.pt
rm -f runs/detect/run/weights/best.pt
"$yolo" train resume=True model=runs/detect/run/weights/last.pt patience=1 time=0.0001 > train.log 2>&1 || fail "the resumed run failed"
grep -q "Resuming training" train.log || fail "no line says that the run was resumed"
[ "$(wc -l < runs/detect/run/results.csv)" -gt "$rows" ] || fail "the resumed run added no epoch"
[ -d runs/detect/run-2 ] && fail "the resumed run made a folder of its own"
[ -L runs/detect/run/weights/last.pt ] || fail "last.pt is no link any more"
[ -f runs/detect/run/weights/best.pt ] && [ ! -L runs/detect/run/weights/best.pt ] || fail "best.pt is no file of its own"
"$yolo" predict model=runs/detect/run/weights/best.pt source=shapes/images/val imgsz=64 save=False > train.log 2>&1 || fail "best.pt does not predict"
echo "interrupted after $((rows - 1)) epochs and resumed"
