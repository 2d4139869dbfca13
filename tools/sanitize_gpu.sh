#!/usr/bin/env bash
# NVIDIA's compute-sanitizer over the op table and the other tests of kernels on the GPU of this machine: memcheck (accesses outside
# allocations) and racecheck (shared memory), maps in f32 and f16, all at once. What it cannot see, tensors of one allocation that
# overrun each other, the AMD interpreter sees for the same source (tools/amd).
# usage: tools/sanitize_gpu.sh BUILD [OUT folder] [seconds]   BUILD/tests has the programs
# Exit code 1: findings, or a run that did not end in time; 77: no compute-sanitizer, or it refuses the device.
set -uo pipefail
build="$(cd "${1:?build folder}" && pwd)" out="${2:-sanitized}" seconds="${3:-150}"
mkdir -p "$out"
out="$(cd "$out" && pwd)"
for tool in compute-sanitizer /usr/local/cuda/bin/compute-sanitizer /usr/local/cuda/compute-sanitizer/compute-sanitizer ''; do
  [ -n "$tool" ] && command -v "$tool" >/dev/null && break
done
[ -n "$tool" ] || { echo "skipped: compute-sanitizer is not installed"; exit 77; }
export ONELOOK_TEST_DEVICE="${ONELOOK_TEST_DEVICE:-cuda:0}" OMP_WAIT_POLICY=passive
export CUDA_CACHE_PATH="$out/cache" CUDA_CACHE_MAXSIZE=1073741824 # the driver compiles each module once
cd "$build"
ONELOOK_TEST_COMPUTE=f32 timeout "$seconds" tests/test_ops >"$out/plain.log" 2>&1 || { tail -5 "$out/plain.log"; echo "the op table fails without the tool already"; exit 1; }
run() { # tool, type, program
  local log="$out/$1-$2-$3.log" start rc=0
  start="$(date +%s)"
  ONELOOK_TEST_COMPUTE="$2" timeout "$seconds" "$tool" --tool "$1" --error-exitcode 9 --print-limit 20 "tests/$3" >"$log" 2>&1 || rc=$?
  echo "$1 $3 $2: exit code $rc, $(($(date +%s) - start)) s; $(grep -E '(ERROR|RACECHECK) SUMMARY' "$log" | tail -1); $(grep -oE '[0-9]+ of [0-9]+ cases' "$log" | paste -sd' ')" >"$log.sum"
}
for check in memcheck racecheck; do
  for type in f32 f16; do run "$check" "$type" test_ops & done
  for program in test_flat test_device_select test_device_pictures; do run "$check" f32 "$program" & done
done
wait
cat "$out"/*.sum
rm -rf "$out/cache"
if grep -lqi 'device not supported' "$out"/*.log; then echo "skipped: compute-sanitizer refuses this device"; exit 77; fi
! grep -hvq 'exit code 0, .*SUMMARY: 0 \(errors\|hazards\)' "$out"/*.sum
