#!/usr/bin/env bash
# Speed as ratios against what a user would run instead. ONELOOK_REFERENCE_PYTHON names an interpreter with the reference package,
# torch and onnxruntime; without it only our own times are printed. usage: bench/run.sh [build]
set -euo pipefail
cd "$(dirname "$0")/.."
build="${1:-build}"
export GOMP_SPINCOUNT="${GOMP_SPINCOUNT:-1000}" # as the program itself waits
cmake --build "$build" --target bench_step bench_plan >/dev/null
if [ -n "${ONELOOK_REFERENCE_PYTHON:-}" ]; then
  "$ONELOOK_REFERENCE_PYTHON" bench/compare_cpu.py "$build" predict
  "$ONELOOK_REFERENCE_PYTHON" bench/compare_cpu.py "$build" train
else
  echo "bench: set ONELOOK_REFERENCE_PYTHON to compare; our own times:"
  "$build/bench/bench_plan" n predict 1 640 9 | tail -1
  "$build/bench/bench_plan" n train 4 640 5 | tail -1
fi
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
timed() { local s e; s=$(date +%s%N); "$@" >/dev/null 2>&1; e=$(date +%s%N); echo $(((e - s) / 1000000)); }
echo "yolo version: $(for _ in 1 2 3 4 5 6 7 8 9; do timed "$build/yolo" version; done | median) ms (goal < 20)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
"$build/yolo" shapes dir="$work/shapes" n_train=1 n_val=1 size=640 >/dev/null
picture="$(find "$work/shapes/images/val" -type f)"
echo "predict of one picture, start to file: $(for _ in 1 2 3 4 5; do timed "$build/yolo" predict model=yolo26n.yaml source="$picture" device=cpu project="$work" name=p exist_ok; done | median) ms (goal < 600)"
for n in 1 2; do
  printf 'predict forward with %s thread%s: ' "$n" "$([ "$n" = 1 ] || echo s)"
  taskset -c "0-$((n - 1))" "$build/bench/bench_plan" n predict 1 640 9 | tail -1 | sed 's/.*median/median/; s/;.*//'
  printf 'training step, batch 4, with %s thread%s: ' "$n" "$([ "$n" = 1 ] || echo s)"
  taskset -c "0-$((n - 1))" "$build/bench/bench_plan" n train 4 640 3 | tail -1 | sed 's/.*median/median/; s/;.*//'
done
