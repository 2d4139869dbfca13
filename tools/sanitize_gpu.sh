#!/usr/bin/env bash
# NVIDIA's compute-sanitizer over the op table and the other tests of kernels on the GPU of this machine: memcheck (accesses outside
# allocations), racecheck (shared memory between barriers), synccheck (barriers), and initcheck where memory is not cleared first;
# maps in f32, f16 and bf16, many runs side by side. What it cannot see, tensors of one allocation that overrun each other and
# blocks that race through global memory, the AMD interpreter sees for the same source (tools/amd).
# usage: tools/sanitize_gpu.sh BUILD [OUT folder] [seconds in all] [runs at a time] [pattern of runs]   BUILD/tests has the programs
# A run is named "tool type program part", as the summary prints it; the pattern (grep -E) chooses some.
# Exit code 1: findings, or a run that did not end in time; 77: no compute-sanitizer, or it refuses the device.
set -uo pipefail
source="$(cd "$(dirname "$0")/.." && pwd)"
build="$(cd "${1:?build folder}" && pwd)" out="${2:-sanitized}" seconds="${3:-270}" jobs="${4:-$(nproc)}" chosen="${5:-.}"
mkdir -p "$out"
out="$(cd "$out" && pwd)"
export build out source deadline=$(($(date +%s) + seconds))
for tool in "${COMPUTE_SANITIZER:-}" compute-sanitizer /usr/local/cuda*/bin/compute-sanitizer /usr/local/cuda*/compute-sanitizer/compute-sanitizer /opt/nvidia/*/compute-sanitizer/compute-sanitizer ''; do
  [ -n "$tool" ] && command -v "$tool" >/dev/null && break
done
[ -n "$tool" ] || { echo "skipped: compute-sanitizer is not installed (a CUDA toolkit has it; COMPUTE_SANITIZER names one)"; exit 77; }
export tool ONELOOK_TEST_DEVICE="${ONELOOK_TEST_DEVICE:-cuda:0}" OMP_WAIT_POLICY=passive OMP_NUM_THREADS=2
export CUDA_CACHE_PATH="$out/cache" CUDA_CACHE_MAXSIZE=1073741824 # the driver compiles each module once
cd "$build" || exit 1
rm -f "$out"/*.sum "$out"/*.log
parts=2
programs='test_device_step test_device_select test_device_pictures test_loss test_plan test_gradients test_trainer'
programs="$(for program in $programs; do [ ! -x "tests/$program" ] || echo "$program"; done)"

left() { echo $((deadline - $(date +%s))); }
plain() { # type, program: right without the tool, and its code compiled for what follows
  local log="$out/plain-$1-$2.log"
  ONELOOK_TEST_COMPUTE="$1" timeout "$(left)" "tests/$2" >"$log" 2>&1 || echo "$2 in $1 fails without the tool already: $(tail -1 "$log")"
}
run() { # tool, type, program, part of the op table or of the program: a number, the name of a test, -name of one that is left out
  local log="$out/$1-$2-$3${4:+-$4}.log" start rc=0 limit=20 more=() command=("tests/$3") part='' only='' skip=''
  case "${4:-}" in [0-9]*) part="$4/$parts" ;; -*) skip="${4#-}" ;; *) only="${4:-}" ;; esac
  start="$(date +%s)"
  [ "$(left)" -gt 5 ] || { echo "not run  $1 $3 $2 ${4:-}: no time left" >"$log.sum"; return; }
  [ "$1" != memcheck ] || more=(--leak-check full --padding 256)
  [ "$1" != initcheck ] || limit=100000
  [ "$3" != program ] || command=("$source/tools/test_device.sh" ./yolo "$ONELOOK_TEST_DEVICE")
  # mixed precision, MuSGD, averages, validation: the recorded step of a user's run
  [ "$3" != training ] || command=(./yolo detect train model="$source/tests/fixtures/few.yaml" data="$out/training-set/data.yaml" epochs=2 batch=4 nbs=4
    imgsz=64 optimizer=MuSGD amp="$([ "$2" = bf16 ] && echo bf16 || echo True)" plots=False device="$ONELOOK_TEST_DEVICE" project="$out/training-$1-$2" name=run)
  [ -z "$part" ] || export ONELOOK_TEST_PART="$part"
  [ -z "$only" ] || export ONELOOK_TEST_ONLY="$only"
  [ -z "$skip" ] || export ONELOOK_TEST_SKIP="$skip"
  ONELOOK_TEST_COMPUTE="$2" timeout "$(left)" "$tool" --tool "$1" --target-processes all --error-exitcode 9 \
    --print-limit "$limit" "${more[@]}" "${command[@]}" >"$log" 2>&1 || rc=$?
  # A copy to the host may bring rows beyond the counted ones, which nobody reads (gpu_select.c): what kernels read is judged.
  if [ "$1" = initcheck ] && [ "$rc" = 9 ] && ! grep -q 'Uninitialized __' "$log" && grep -q 'PASSED' "$log"; then rc=0; sed -i 's/ERROR SUMMARY.*/ERROR SUMMARY: 0 errors in kernels/' "$log"; fi
  if [ "$rc" = 0 ] && ! grep -E '(ERROR|RACECHECK) SUMMARY' "$log" | grep -qvE 'SUMMARY: 0 (errors|hazards)'; then verdict=clean; else verdict=FINDINGS; fi
  [ "$rc" != 124 ] || verdict="not done"
  echo "$verdict  $1 $3 $2 ${4:-}: exit code $rc, $(($(date +%s) - start)) s; $(grep -E '(ERROR|RACECHECK) SUMMARY' "$log" | sed 's/=* *//' | sort | uniq -c | sort -rn | head -2 | paste -sd' '); $(grep -oE '[0-9]+ of [0-9]+ cases|[0-9]+ test\(s\)\.$|agrees with the CPU|[0-9]+ epochs completed' "$log" | tail -1)" >"$log.sum"
}
export parts
export -f run plain left

# The tool sees this device and finds what is there to be found.
timeout 60 "$tool" --tool memcheck --error-exitcode 9 tests/overrun >"$out/overrun.txt" 2>&1
rc=$?
if grep -qi 'device not supported' "$out/overrun.txt"; then echo "skipped: compute-sanitizer refuses this device"; exit 77; fi
[ "$rc" = 9 ] && grep -q 'Invalid __global__' "$out/overrun.txt" || { tail -5 "$out/overrun.txt"; echo "the tool does not see a kernel that leaves its memory"; exit 1; }
echo "a planted access outside memory is found"
{ for type in f32 f16 bf16; do echo "$type test_ops"; done; for program in $programs; do echo "f32 $program"; done; } | grep -E "$chosen|test_ops" |
  xargs -P "$jobs" -L 1 bash -c 'plain "$@"' _ | tee "$out/plain.sum"
[ ! -s "$out/plain.sum" ] || exit 1
./yolo shapes dir="$out/training-set" n_train=8 n_val=2 size=64 >"$out/training-set.txt" || exit 1
echo "right without the tool; $(left) s left"
{
  # first what takes longest; test_trainer has the same kernels a thousand times, which takes minutes
  for check in racecheck memcheck; do for type in f16 bf16; do echo "$check $type training"; done; done
  for type in f16 f32 bf16; do
    for check in memcheck racecheck; do
      for ((part = 0; part < parts; part++)); do echo "$check $type test_ops $part"; done
    done
  done
  for check in memcheck racecheck; do
    for program in $programs; do
      case "$program" in
        test_trainer) ;;
        test_device_select) echo "$check f32 $program -test_full_size" ;; # its second, full-size half: racecheck needs minutes
        *) echo "$check f32 $program" ;;
      esac
    done
    echo "$check f32 program"
  done
  echo "memcheck f32 test_device_select test_full_size"
  for ((part = 0; part < parts; part++)); do echo "synccheck f16 test_ops $part"; echo "initcheck f16 test_ops $part"; done
  for program in $programs; do [ "$program" = test_trainer ] || { echo "initcheck f32 $program"; echo "synccheck f32 $program"; }; done
} | grep -E "$chosen" >"$out/list"
xargs -P "$jobs" -L 1 bash -c 'run "$@"' _ <"$out/list"
cat "$out"/*.sum | sort >"$out/summary"
grep -v '^clean' "$out/summary" | head -40
grep -hE '========= (Error|Warning|Invalid|Program hit|Leaked|Uninitialized|Barrier|Potential)' "$out"/*.log | sed 's/0x[0-9a-f]*/0x…/g; s/([0-9,]*)/()/g' | sort | uniq -c | sort -rn | head -20
echo "$(grep -c '^clean' "$out/summary") of $(wc -l <"$out/list") runs clean; $(left) s left"
rm -rf "$out/cache" "$out"/training-*
! grep -qv '^clean' "$out/summary"
