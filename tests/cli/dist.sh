#!/usr/bin/env bash
# usage: dist.sh source build — the packed program runs unpacked and alone, and takes the C++ run time from the machine, as
# AMD's HIP runtime does.
set -eu
source="$(realpath "$1")" build="$(realpath "$2")"
command -v xz >/dev/null && command -v strip >/dev/null || { echo "skipped: xz or strip is missing"; exit 77; }
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
"$source/tools/dist.sh" "$build" "$work/dist"
mkdir "$work/elsewhere"
tar -C "$work/elsewhere" -xJf "$work"/dist/*.tar.xz
rm -rf "$work/dist"
cd "$work"/elsewhere/onelook-*
for library in libstdc++.so.6 libgcc_s.so.1 libc.so.6; do
  [ ! -e "$library" ] || { echo "$library is packed: the machine's HIP runtime may need a newer one"; exit 1; }
done
for library in libonelook.so.0 libz.so.1 libjpeg.so.62; do
  [ -e "$library" ] || { echo "$library is not packed"; exit 1; }
done
said="$(env -i HOME="$work" ./yolo checks)"
grep -q "^Device cpu  *ready" <<<"$said" || { echo "the unpacked program's checks: $said"; exit 1; }
