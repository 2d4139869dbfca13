#!/usr/bin/env bash
# usage: configure.sh source — what CMake says of GPU code: every way to have none, or a part of it.
set -u
source="$(realpath "$1")"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
failures=0
# configured 0|1 TEXT option …: the outcome, and a line of it
configured() {
  local out rc=0
  rm -rf "$work/build"
  out="$(cmake -S "$source" -B "$work/build" -DONELOOK_TESTS=OFF "${@:3}" 2>&1)" || rc=1
  out="$(tr -s ' \n' ' ' <<<"$out")" # errors are broken into lines
  if [ "$rc" != "$1" ] || [[ "$out" != *"$2"* ]]; then
    echo "with ${*:3}: exit code $rc, and not in the output: $2"
    tail -c 600 <<<"$out"
    failures=$((failures + 1))
  fi
}
clang=-DONELOOK_DEVICE_CLANG=/usr/bin/true lld=-DONELOOK_DEVICE_LLD=/usr/bin/true
configured 0 "GPU code: left out, because clang-19 was not found (apt-get install clang-19 lld-19); the CPU side is complete" -DONELOOK_DEVICE_CLANG=
configured 0 "GPU code: AMD's is left out, because lld-19 was not found (apt-get install lld-19)" $clang -DONELOOK_DEVICE_LLD= "-DONELOOK_GPU_TARGETS=ptx;gfx1100"
configured 0 "GPU code: by /usr/bin/true for ptx gfx1100" $clang $lld "-DONELOOK_GPU_TARGETS=ptx;gfx1100"
configured 0 "GPU code: left out, as ONELOOK_GPU_TARGETS says" $clang $lld -DONELOOK_GPU_TARGETS=
configured 1 "'gfx1100,ptx' is no target; name some of ptx and gfx" $clang $lld -DONELOOK_GPU_TARGETS=gfx1100,ptx
configured 1 "'$work/absent' is no archive of device code" -DONELOOK_KERNEL_ARCHIVE="$work/absent"
echo "no archive" >"$work/other"
configured 1 "'$work/other' is no archive of device code" -DONELOOK_KERNEL_ARCHIVE="$work/other"
printf 'OLKERN01\0\0\0\0\0\0\0\0' >"$work/empty"
configured 0 "GPU code: taken from $work/empty" -DONELOOK_KERNEL_ARCHIVE="$work/empty"
[ "$failures" = 0 ] && echo "configuring: fine"
exit $((failures > 0))
