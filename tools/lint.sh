#!/usr/bin/env bash
# Format, static analysis and structure. usage: tools/lint.sh [build folder with compile_commands.json]
set -uo pipefail
cd "$(dirname "$0")/.."
build="${1:-build}"
failures=0
mapfile -t sources < <(find src include tests examples bench fuzz -name '*.[ch]' -not -path '*/golden/*' -not -path 'src/kernels/*' 2>/dev/null | sort)
clang-format --dry-run -Werror "${sources[@]}" >"$build/format.log" 2>&1 || { head -20 "$build/format.log"; echo "lint: run 'make format'"; failures=1; }
# device code is C++ by content and C by name
for source in src/kernels/*.[ch]; do
  clang-format --assume-filename="${source%.*}.cpp" <"$source" | cmp -s - "$source" || { echo "$source is not formatted; run 'make format'"; failures=1; }
done
mapfile -t units < <(find src -name '*.c' -not -path 'src/kernels/*' | sort)
printf '%s\n' "${units[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p "$build" >"$build/tidy.log" 2>/dev/null || failures=1
grep -E 'warning:|error:' "$build/tidy.log" | sort -u | head -40
tools/check_includes.sh || failures=1
[ "$failures" = 0 ] && echo "lint: fine"
exit "$failures"
