#!/usr/bin/env bash
# Makes dist/onelook-<version>-linux-x86_64.tar.xz: program, library, header, the shared libraries they need (all but those of
# the C and C++ compilers) beside them, licences. Runs from any folder on any x86-64 Linux with glibc >= 2.36 and libstdc++ >= 12.
# usage: tools/dist.sh [build folder [folder for the result: dist]]
set -euo pipefail
cd "$(dirname "$0")/.."
build="${1:-build}"
dist="${2:-dist}"
version="$("$build/yolo" version)"
name="onelook-$version-linux-x86_64"
out="$dist/$name"
rm -rf "$out"
mkdir -p "$out/licenses" "$out/include"
cp "$build/yolo" "$out/"
cp "$build/libonelook.so.0" "$out/"
ln -s libonelook.so.0 "$out/libonelook.so"
cp include/onelook.h "$out/include/"
cp LICENSE "$out/licenses/onelook.txt"
[ ! -d python/onelook ] || cp -r python "$out/python"
find "$out" -name __pycache__ -prune -exec rm -rf {} +

# What belongs to the machine that runs the program: glibc's parts, and the C++ and compiler's run time, since AMD's HIP
# runtime of that machine needs those of its own age, and a process has each of them once.
keep_out='^(linux-vdso|ld-linux-x86-64|libc|libm|libdl|librt|libpthread|libresolv|libutil|libstdc\+\+|libgcc_s)\.so'
ldd "$build/libonelook.so.0" "$build/yolo" | awk '/=> \//{print $3}' | sort -u | while read -r library; do
  base="$(basename "$library")"
  [[ "$base" =~ $keep_out || "$base" = libonelook.so.0 ]] && continue
  cp -L "$library" "$out/$base"
  package="$(dpkg-query -S "$(readlink -f "$library")" 2>/dev/null | head -1 | cut -d: -f1 || true)"
  [ -z "$package" ] || [ ! -f "/usr/share/doc/$package/copyright" ] || cp "/usr/share/doc/$package/copyright" "$out/licenses/$package.txt"
done
# the font of labels and plots, looked for beside the library first; without it a plainer built-in face is used
font=/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf
if [ -f "$font" ]; then
  cp "$font" "$out/"
  cp /usr/share/doc/fonts-dejavu-core/copyright "$out/licenses/fonts-dejavu-core.txt"
fi
strip --strip-unneeded "$out/yolo" "$out/libonelook.so.0"

# every other library must come from the folder itself, and the program must run without an environment
elsewhere="$(env -i ldd "$out/yolo" | awk '/=> \//{print $3}' | grep -v "^$(realpath "$out")/" | while read -r l; do [[ "$(basename "$l")" =~ $keep_out ]] || echo "$l"; done)"
[ -z "$elsewhere" ] || { echo "dist: libraries are found outside the folder: $elsewhere" >&2; exit 1; }
[ "$(env -i "$out/yolo" version)" = "$version" ] || { echo "dist: the program does not run from its folder" >&2; exit 1; }

tar -C "$dist" -c "$name" | xz -T2 -6 >"$dist/$name.tar.xz"
echo "$dist/$name.tar.xz: $(du -m "$dist/$name.tar.xz" | cut -f1) MB compressed, $(du -sm "$out" | cut -f1) MB unpacked"
