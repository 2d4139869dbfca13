#!/usr/bin/env bash
# What the compiled device code must look like; prints registers and shared memory of the hot kernels.
# usage: tools/check_device_code.sh FOLDER (build/kernels, one folder a target)
#   AMD: matrix instructions in the half-precision convolutions; every kernel has 256 threads a block, no spilled registers and no
#   private memory
#   PTX: nothing in local memory, every rounding named, no name in two modules; where ptxas is found (PTXAS, PATH, a CUDA toolkit, PyPI's nvidia-cuda-nvcc), every module
#   assembles for sm_80 and sm_90 without a stack frame or spilled registers
# tests/device_code/planted.sh plants each of these faults.
# Exit code 77: nothing to check (device code left out, or llvm-readelf and llvm-objdump of version 19 are missing).
set -uo pipefail
folder="${1:?folder of device code}"
[ -d "$folder" ] || { echo "skipped: no device code in $folder"; exit 77; }
tool() { for v in 22 21 20 19; do command -v "$1-$v" && return; done; return 1; }
skip() { echo "skipped: no $1 of version 19 or later (apt-get install llvm-19)"; exit 77; }
objdump="$(tool llvm-objdump)" || skip llvm-objdump
readelf="$(tool llvm-readelf)" || skip llvm-readelf
matrix='conv_f16 conv_bf16 wgrad wgrad_tile gemm' # modules whose half-precision kernels use the matrix unit
hot='conv_f16 conv_bf16 conv_f32 wgrad wgrad_tile gemm bn select pictures'
failures=0
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }

check_amd() { # target
  local target="$1" module object wanted=''
  case "$target" in
    gfx908 | gfx90a | gfx942 | gfx950) wanted='v_mfma' ;;
    gfx11* | gfx12*) wanted='v_wmma' ;;
  esac
  for module in $hot; do [ -f "$folder/$target/$module" ] || echo "BAD no module $module: $target"; done
  for object in "$folder/$target"/*; do
    module="$(basename "$object")"
    # one line a hot kernel: name, vgpr, agpr, sgpr, LDS bytes; a kernel ends with its wavefront size
    "$readelf" --notes "$object" | awk -v t="$target" -v m="$module" -v hot=" $hot " '
      /^  - / { delete v; name = "" }
      /^    \.[a-z_]*:|^  - \.[a-z_]*:/ { key = $1 == "-" ? $2 : $1; sub(/:$/, "", key); v[key] = $NF; if (key == ".name") { name = $NF; names++ } }
      /^    \.wavefront_size:/ { n++
        if (index(hot, " " m " ")) printf "%-8s %-26s vgpr %3d agpr %3d sgpr %3d LDS %5d\n", t, name, v[".vgpr_count"], v[".agpr_count"], v[".sgpr_count"], v[".group_segment_fixed_size"]
        if (v[".private_segment_fixed_size"] != 0) print "BAD private memory, " v[".private_segment_fixed_size"] " bytes: " t " " name
        if (v[".vgpr_spill_count"] != 0) print "BAD spilled vector registers, " v[".vgpr_spill_count"] ": " t " " name
        if (v[".sgpr_spill_count"] != 0) print "BAD spilled scalar registers, " v[".sgpr_spill_count"] ": " t " " name
        if (v[".max_flat_workgroup_size"] != 256) print "BAD block of " v[".max_flat_workgroup_size"] " threads, not 256: " t " " name }
      END { if (n == 0 || n != names) print "BAD metadata of " n + 0 " kernels, names of " names + 0 ": " t " " m }'
    [ -n "$wanted" ] && [[ " $matrix " = *" $module "* ]] || continue
    "$objdump" -d "$object" | awk -v want="$wanted" -v t="$target" -v m="$module" '
      /^[0-9a-f]+ <.*>:$/ { name = substr($2, 2, length($2) - 3) }
      index($0, want) { n[name]++ }
      /s_endpgm/ { seen[name] = 1 }
      END { for (k in seen) if (k ~ /(^|_)b?f16/ && k ~ /^(conv|wgrad|gemm)_/ && k !~ /reduce|pack/) { if (n[k]) found++; else print "BAD no " want ": " t " " k }
        if (!found) print "BAD no kernel with " want ": " t " " m }'
  done
}

check_ptx() {
  local module assembler arch report
  for module in "$folder"/ptx/*; do
    ! grep -q '\.local' "$module" || fail "local memory in $module"
    ! grep -qE '(mul|add|sub)\.f(32|64)' "$module" || fail "roundings that the driver may fuse in $module"
  done
  # kernels of several modules go to the driver as one text
  for module in $(awk '/^\.(visible|weak|extern|func|shared|global|const) / { sub(/[[(=;].*/, ""); print $NF }' "$folder"/ptx/* | sort | uniq -d); do
    fail "the PTX has more than one $module"
  done
  local wheel
  wheel="$(python3 -c 'import glob, nvidia; print(*[f for p in nvidia.__path__ for f in glob.glob(p + "/*/bin/ptxas")])' 2>/dev/null | cut -d' ' -f1)"
  for assembler in "${PTXAS:-}" ptxas /usr/local/cuda/bin/ptxas "$wheel"; do
    [ -n "$assembler" ] && command -v "$assembler" >/dev/null && break
    assembler=''
  done
  [ -n "$assembler" ] || { echo "no ptxas here: the PTX is not assembled"; return; }
  for module in "$folder"/ptx/*; do
    module="$(basename "$module")"
    for arch in sm_80 sm_90; do
      report="$("$assembler" -v -arch="$arch" "$folder/ptx/$module" -o /dev/null 2>&1)" || fail "ptxas $arch $module: $report"
      ! grep -E ' [1-9][0-9]* bytes (stack frame|spill)' <<<"$report" || fail "stack frame in $module for $arch"
      [ "$arch" != sm_90 ] || [[ " $hot " != *" $module "* ]] || sed -nE "s/.*Compiling entry function '([^']*)'.*/\1/p; s/.*Used ([0-9]+) registers(.* ([0-9]+) bytes smem)?.*/  registers \1 shared \3/p" <<<"$report" |
        paste -d' ' - - | sed 's/^/sm_90    /'
    done
  done
}

for path in "$folder"/*/; do
  target="$(basename "$path")"
  if [ "$target" = ptx ]; then check_ptx; elif [[ "$target" = sm_* ]]; then # made of the PTX, which is checked
    echo "$target: $(cat "$path"/* | wc -c) bytes of machine code"
  else
    lines="$(check_amd "$target")"
    grep -v '^BAD' <<<"$lines"
    while IFS= read -r bad; do [ -z "$bad" ] || fail "${bad#BAD }"; done < <(grep -E '^(BAD|FAILED)' <<<"$lines")
  fi
done
echo "device code: $failures findings"
[ "$failures" = 0 ]
