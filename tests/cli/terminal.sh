#!/usr/bin/env bash
# usage: terminal.sh path/to/yolo — on a terminal progress lines replace each other and warnings are coloured; on a pipe neither.
set -u
command -v script > /dev/null || { echo "skipped: no script(1) to make a terminal"; exit 77; }
yolo="$(realpath "$1")"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
export CUDA_VISIBLE_DEVICES=-1 HIP_VISIBLE_DEVICES=-1
export HOME="$work" ONELOOK_CONFIG_DIR="$work/config" XDG_CACHE_HOME="$work/cache" TERM=xterm
unset NO_COLOR YOLO_VERBOSE
cd "$work" || exit 1
fail() { echo "$1"; head -c 3000 "$2" | cat -v | tail -20; exit 1; }
"$yolo" shapes dir=shapes n_train=4 n_val=2 size=64 > /dev/null
run="$yolo train --model=yolo26n.yaml data=shapes/data.yaml epochs=1 batch=1 nbs=1 imgsz=64 plots=False optimizer=SGD"
script -qec "$run" /dev/null < /dev/null > terminal.log || fail "the run on a terminal failed" terminal.log
$run > pipe.log || fail "the run on a pipe failed" pipe.log
grep -q $'\r\033\\[K' terminal.log || fail "no progress line was rewritten" terminal.log
grep -q $'\033\\[33mWARNING' terminal.log || fail "the warning is not coloured" terminal.log
grep -q $'[\r\033]' pipe.log && fail "control characters on a pipe" pipe.log
grep -q "^WARNING ⚠️ argument '--model" pipe.log || fail "no plain warning" pipe.log
[ "$(grep -c '^ *1/1 ' pipe.log)" = 1 ] || fail "one line an epoch is wanted on a pipe" pipe.log
NO_COLOR=1 script -qec "$yolo --conf" /dev/null < /dev/null | grep -q $'\033' && fail "NO_COLOR is not heeded" pipe.log
"$yolo" cfg > /dev/full 2> full.log && fail "output that was lost is no success" full.log
grep -q "^ERROR ❌ the output could not be written" full.log || fail "no word of output that was lost" full.log
# with stdout closed, files of the run must not take its place and its lines
"$yolo" predict model=yolo26n.yaml source=shapes/images/val imgsz=64 save_txt conf=0 max_det=1 >&- 2> closed.log || fail "stdout is closed" closed.log
grep -rlE "image |Speed" runs/detect/predict && fail "lines landed in a file" closed.log
echo "terminal and pipe: fine"
