#!/usr/bin/env bash
# Tests on the GPU of this machine: the first that `yolo checks` shows as usable, or the device named second.
# usage: tools/test_gpu.sh BUILD [cuda:0|hip:0]
set -euo pipefail
source="$(cd "$(dirname "$0")/.." && pwd)"
build="$(cd "${1:?build folder}" && pwd)"
checks="$("$build/yolo" checks)"
device="${2:-$(sed -nE '/^Device (cuda|hip):/{s/^Device ([a-z]+:[0-9]+) .*/\1/p;q}' <<<"$checks")}"
[ -n "$device" ] || { echo "skipped: no usable GPU here (yolo checks says why)"; exit 0; }
echo "on $device"
export ONELOOK_TEST_DEVICE="$device"
cd "$build"
failed=0
run() { # name, command …
  local rc=0
  "${@:2}" >test_gpu.log 2>&1 || rc=$?
  case "$rc" in
    0) echo "passed   $1" ;;
    77) echo "skipped  $1: $(grep -m1 skipped test_gpu.log || true)" ;;
    *) echo "FAILED   $1"; grep -E 'ERROR|FAILED' test_gpu.log | head -20 || true; failed=1 ;;
  esac
}
for type in f32 f16 bf16; do ONELOOK_TEST_COMPUTE="$type" run "op table, maps in $type" tests/test_ops; done
for name in device_step device_select device_pictures selftest gradients loss plan model_modules model_full trainer; do run "$name" "tests/test_$name"; done
for record in "$source"/tests/golden/trajectory/*.json; do
  [ ! -f "$record" ] || run "trajectory $(basename "$record" .json)" tests/trajectory "$(basename "$record" .json)"
done
for record in "$source"/tests/golden/trajectory_shapes/*.json; do
  [ ! -f "$record" ] || run "trajectory shapes-$(basename "$record" .json)" tests/trajectory "shapes-$(basename "$record" .json)"
done
run "program end to end" "$source"/tools/test_device.sh ./yolo "$device"
exit "$failed"
