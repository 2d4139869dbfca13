#!/usr/bin/env bash
# Format, static analysis and structure. usage: tools/lint.sh [build folder with compile_commands.json]
set -uo pipefail
cd "$(dirname "$0")/.."
build="${1:-build}"
failures=0
mapfile -t sources < <(find src include tests examples bench fuzz -name '*.[ch]' -not -path '*/golden/*' 2>/dev/null | sort)
clang-format --dry-run -Werror "${sources[@]}" >"$build/format.log" 2>&1 || { head -20 "$build/format.log"; echo "lint: run 'make format'"; failures=1; }
mapfile -t units < <(find src -name '*.c' | sort)
printf '%s\n' "${units[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p "$build" >"$build/tidy.log" 2>/dev/null || failures=1
grep -E 'warning:|error:' "$build/tidy.log" | sort -u | head -40
tools/check_includes.sh || failures=1
[ "$failures" = 0 ] && echo "lint: fine"
exit "$failures"
