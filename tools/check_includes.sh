#!/usr/bin/env bash
# A room includes only rooms above it (docs/architecture.md): reads every #include "room/…" under src and compares ranks.
# train, val and predict may not include each other; cli sees only onelook.h. Also: every header compiles alone.
set -u
cd "$(dirname "$0")/.." || exit 1
declare -A rank=([base]=1 [tensor]=2 [graph]=3 [ops]=4 [device]=5 [kernels]=4 [model]=6 [formats]=7 [data]=8
  [draw]=9
  [train]=10 [val]=10 [predict]=10 [runtime]=10 [dist]=10 [api]=11 [cli]=12)
failures=0
while IFS=: read -r file line text; do
  room="${file#src/}"; room="${room%%/*}"
  target="$(sed -E 's/.*#include "([^"]+)".*/\1/' <<<"$text")"
  other="${target%%/*}"
  if [ "$other" = "$room" ] || [ "$other" = "$target" ] || [ -z "${rank[$other]:-}" ]; then continue; fi
  if [ "$room" = cli ]; then
    echo "$file:$line: cli sees only onelook.h, not $target"; failures=$((failures + 1))
  elif [ "${rank[$other]}" -ge "${rank[$room]}" ]; then
    echo "$file:$line: room '$room' may not include '$target'"; failures=$((failures + 1))
  fi
done < <(grep -rnE '^#include "' src --include='*.c' --include='*.h' --include='*.def')
read -ra libraries <<<"$(pkg-config --cflags cairo libcjson 2>/dev/null)"
flags=(-std=c17 -D_GNU_SOURCE -fopenmp -I. -Iinclude -Isrc "${libraries[@]}" -fsyntax-only -x c)
for header in $(find src include -name '*.h' -not -path 'src/kernels/gpu.h' -not -path 'src/kernels/tile.h' -not -path 'src/kernels/conv.h' | sort); do # device headers are C++ for clang
  if ! errors=$(echo "#include \"$header\"" | ${CC:-cc} "${flags[@]}" - 2>&1); then
    echo "$header does not compile alone: $(head -1 <<<"$errors")"; failures=$((failures + 1))
  fi
done
[ "$failures" = 0 ] && echo "include order and headers: fine"
exit $((failures > 0))
