#!/usr/bin/env bash
# usage: run.sh test.py — with the interpreter that ONELOOK_PYTHON names, else the first python3 that has numpy (the one
# first in PATH need not be the one that the package manager gives numpy to); 77 (skipped) when there is none.
# A sanitized library needs its runtime loaded first, which an interpreter does not do by itself; the interpreter's own leaks are not ours.
runtime="$(ldd "${ONELOOK_LIBRARY:-/nonexistent}" 2> /dev/null | awk '/lib[at]san\.so/ { print $3; exit }')"
if [ -n "$runtime" ]; then export LD_PRELOAD="$runtime" ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"; fi
if [ -n "${ONELOOK_PYTHON:-}" ]; then exec "$ONELOOK_PYTHON" "$1"; fi
while IFS= read -r python; do
  if "$python" -c "import numpy" 2> /dev/null; then exec "$python" "$1"; fi
done < <(type -aP python3)
echo "skipped: no python3 with numpy"
exit 77
