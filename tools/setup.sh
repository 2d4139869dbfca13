#!/usr/bin/env bash
# Installs what is missing of packaging/apt-packages.txt (Debian 12, Ubuntu 22.04 and later), or of the list named as the
# first argument. Does nothing, and asks for no password, when everything is there. "a | b" in a list means: the first of
# them that the archive has.
set -euo pipefail
list="${1:-$(cd "$(dirname "$0")/.." && pwd)/packaging/apt-packages.txt}"

if ! command -v dpkg-query >/dev/null 2>&1; then
  echo "setup: this is not Debian or Ubuntu; install the counterparts of the packages in $list by hand" >&2
  exit 0
fi
installed() { [ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null | cut -c1-2)" = "ii" ]; }

missing=()
while IFS= read -r line; do
  line="$(sed 's/#.*//' <<<"$line")"
  [ -n "$(tr -d '[:space:]' <<<"$line")" ] || continue
  found=0
  for name in ${line//|/ }; do
    if installed "$name"; then found=1; fi
  done
  [ "$found" = 1 ] || missing+=("$line")
done <"$list"
[ "${#missing[@]}" -gt 0 ] || exit 0

sudo=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null 2>&1 || { echo "setup: please install as root: ${missing[*]}" >&2; exit 1; }
  sudo=(sudo)
fi
"${sudo[@]}" apt-get update -qq
names=()
for line in "${missing[@]}"; do
  for name in ${line//|/ }; do
    if apt-cache show "$name" >/dev/null 2>&1; then names+=("$name"); break; fi
  done
done
echo "setup: installing ${names[*]}"
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${names[@]}" >/dev/null
