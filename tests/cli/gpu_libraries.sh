#!/usr/bin/env bash
# usage: gpu_libraries.sh path/to/yolo folder/of/doubles
# Versions of the vendors' libraries, libraries that lack functions, and devices that do not answer.
set -u
few="$(realpath "$(dirname "$0")/../fixtures/few.yaml")"
yolo="$(realpath "$1")" code="$(realpath "$(dirname "$0")/../support/has_code.sh")"
doubles="$(realpath "$2")"
export LC_ALL=C.UTF-8 NO_COLOR=1
unset HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL HSA_OVERRIDE_GFX_VERSION ROCM_PATH LD_LIBRARY_PATH
if ! "$code" "$yolo" gfx942; then echo "skipped: this build has no code for gfx942"; exit 77; fi
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
# A lost device's runtime does not take its page-locked memory back: no leak of ours.
printf 'leak:libamdhip64\nleak:libcuda\n' >"$work/kept"
export LSAN_OPTIONS="suppressions=$work/kept:print_suppressions=0"
failures=0
# machine [NAME=value …]: the libraries of folders doubles_NAME (plain "hip6": doubles), and the environment of what follows
machine() {
  local name path=""
  for name in ${1//+/ }; do path="$path${path:+:}${doubles}$([ "$name" = hip6 ] || echo "_$name")"; done
  setting=("LD_LIBRARY_PATH=$path" "${@:2}")
}
said() { env "${setting[@]}" timeout 120 "$yolo" "$@" 2>&1; }
bad() { echo "$1"; tail -6 <<<"$2" | cut -c1-400; failures=$((failures + 1)); }
expect() { # text, words of the program …
  local out
  out="$(said "${@:2}")"
  [[ "$out" == *"$1"* ]] || bad "with ${setting[*]}: not in the output of yolo ${*:2}: $1" "$out"
}
refuse() {
  local out
  out="$(said "${@:2}")"
  [[ "$out" != *"$1"* ]] || bad "with ${setting[*]}: must not be in the output of yolo ${*:2}: $1" "$out"
}
"$yolo" shapes dir="$work/shapes" n_train=4 n_val=1 size=64 >/dev/null
trains() { # how many times the function named first must be called: "none" or "some"; on the device named third
  local calls
  rm -rf "$work/run" "$work/calls"
  out="$(said detect train model="$few" data="$work/shapes/data.yaml" epochs=2 batch=2 nbs=2 imgsz=64 mosaic=0 amp=False \
    workers=0 plots=False device="$3" project="$work" name=run exist_ok=True)" || bad "with ${setting[*]}: no training" "$out"
  calls="$(grep -cx "$2" "$work/calls")"
  case "$1" in none) [ "$calls" = 0 ] ;; *) [ "$calls" -gt 0 ] ;; esac || bad "with ${setting[*]}: $2 was called $calls times" "$out"
  [ -f "$work/run/weights/last.pt" ] || bad "with ${setting[*]}: no last.pt" "$out"
  gives_back
}
# What a run took from the driver it has given back.
gives_back() {
  local pair
  for pair in hipMalloc,hipFree hipHostMalloc,hipHostFree hipStreamCreateWithFlags,hipStreamDestroy hipEventCreateWithFlags,hipEventDestroy \
    hipModuleLoadData,hipModuleUnload hipStreamEndCapture,hipGraphDestroy hipGraphInstantiate,hipGraphExecDestroy cuMemAlloc_v2,cuMemFree_v2 \
    cuMemHostAlloc,cuMemFreeHost cuDevicePrimaryCtxRetain,cuDevicePrimaryCtxRelease_v2 cuStreamCreate,cuStreamDestroy_v2 cuEventCreate,cuEventDestroy_v2 cuModuleLoadData,cuModuleUnload \
    cuStreamEndCapture,cuGraphDestroy cuGraphInstantiateWithFlags,cuGraphExecDestroy; do
    [ "$(grep -cx "${pair%,*}" "$work/calls")" = "$(grep -cx "${pair#*,}" "$work/calls")" ] ||
      bad "with ${setting[*]}: ${pair%,*} and ${pair#*,} are not called equally often" "$(sort "$work/calls" | uniq -c | sort -rn)"
  done
}
hip() { machine "$1" HIP_DOUBLE_MB=512 HIP_DOUBLE_LOG="$work/calls" "${@:2}"; }

# versions of AMD's runtime: the struct of properties differs between 5 and 6
for version in 5.2:hip5 6.4:hip6 7.0:hip7; do
  hip "${version#*:}" HIP_DOUBLE_DEVICES=gfx1100,gfx942i
  expect "Device hip:0           AMD double 0, gfx1100, 512 MiB, HIP runtime ${version%:*}, driver ${version%:*}" checks
  expect "Device hip:1           AMD double 1, gfx942, 512 MiB, HIP runtime ${version%:*}, driver ${version%:*}, integrated" checks
  trains some hipGraphLaunch hip:0
done
# the newest of several is taken
hip hip5+hip6+hip7 HIP_DOUBLE_DEVICES=gfx942
expect "HIP runtime 7.0" checks
hip hip5+hip6 HIP_DOUBLE_DEVICES=gfx942
expect "HIP runtime 6.4" checks
# a library that lacks another one is there, and names it
mkdir "$work/broken"
LC_ALL=C sed 's/libc\.so\.6/libq.so.6/' "$doubles/libamdhip64.so.6" >"$work/broken/libamdhip64.so.6"
setting=(LD_LIBRARY_PATH="$work/broken")
expect "the AMD HIP runtime does not load (libamdhip64.so.6: libq.so.6: " checks
refuse "the AMD HIP runtime is not installed" checks
setting=(LD_LIBRARY_PATH="$work/none")
expect "the AMD HIP runtime is not installed (not found: libamdhip64.so.7, libamdhip64.so.6, libamdhip64.so.5, " checks
expect ", /opt/rocm/lib/libamdhip64.so.7, /opt/rocm/lib/libamdhip64.so.6, /opt/rocm/lib/libamdhip64.so.5)" checks
refuse "does not load" checks
# what is optional: a library without one of the functions for graphs gets its launches one by one
hip no_graphs HIP_DOUBLE_DEVICES=gfx942
trains none hipGraphLaunch hip:0
trains none hipStreamBeginCapture hip:0
refuse "Kernels" selftest device=0 model=None report="$work/report"
hip no_graphs HIP_DOUBLE_DEVICES=gfx942,gfx942
refuse "reaches" checks
# what is not
hip hip4 HIP_DOUBLE_DEVICES=gfx942
expect "libamdhip64.so.5 has no hipModuleLoadData: it is older than HIP 5" checks
expect "update AMD's HIP runtime to version 5 or later" checks
expect "libamdhip64.so.5 has no hipModuleLoadData" selftest device=0
hip no_properties HIP_DOUBLE_DEVICES=gfx942
expect "libamdhip64.so.6 cannot describe its devices" checks
# devices that do not answer are not passed over in silence
for name in hipGetDevicePropertiesR0600 hipDeviceGetAttribute hipDeviceTotalMem; do
  hip hip6 HIP_DOUBLE_DEVICES=gfx942,gfx942 HIP_DOUBLE_REFUSE="$name:999"
  expect "libamdhip64.so.6 shows hip:0, which does not answer (the double's error)" checks
  expect "hip:0, which does not answer" selftest device=0
  refuse "answers to hip:0" checks
  hip hip6 HIP_DOUBLE_DEVICES=gfx942,gfx942 HIP_DOUBLE_REFUSE="$name@0:999"
  expect "libamdhip64.so.6 shows hip:0, which does not answer (the double's error)" checks
  expect "Device hip:1 " checks
  trains some hipGraphLaunch 0
done
# what is known but cannot be selected stays in the list, so that numbers mean what they meant
hip hip6 HIP_DOUBLE_DEVICES=gfx942,gfx942 HIP_DOUBLE_REFUSE=hipSetDevice@0:999
expect "libamdhip64.so.6 shows hip:0, which does not answer (the double's error)" checks
expect "driver 6.4, but it does not answer" checks
refuse "reports no free memory" checks
expect "hip:0: error 999 while selecting the device" selftest device=0
trains some hipGraphLaunch 1
trains some hipGraphLaunch -1
hip hip6 HIP_DOUBLE_DEVICES=gfx942 HIP_DOUBLE_REFUSE=hipGetDeviceCount:999
expect "libamdhip64.so.6 finds no AMD GPU (the double's error)" checks
for pair in "hipDriverGetVersion HIP runtime 6.4, driver unknown" "hipRuntimeGetVersion HIP runtime unknown, driver 6.4"; do
  hip hip6 HIP_DOUBLE_DEVICES=gfx942 HIP_DOUBLE_REFUSE="${pair%% *}:999"
  expect "${pair#* }" checks
  trains some hipGraphLaunch 0
done
hip hip6 HIP_DOUBLE_DEVICES=gfx942 HIP_DOUBLE_REFUSE=hipMemGetInfo:999
trains some hipGraphLaunch 0

# the self-test on a card that kills the program leaves a report that says where
hip hip6 HIP_DOUBLE_DEVICES=gfx942 HIP_DOUBLE_ABORT=upsample2
out="$(said selftest device=0 report="$work/report.txt")"
grep -q '^Verdict .* UNFINISHED  the program ended during: upsample2 f32' "$work/report.txt" && grep -q '^Device hip:0 ' "$work/report.txt" || bad "no report of a self-test that was killed" "$out"
# and one that computes nothing fails, op by op, with a report and exit code 1
hip hip6 HIP_DOUBLE_DEVICES=gfx942
out="$(said selftest device=0 report="$work/report.txt")" && bad "a card that computes nothing passes" "$out"
grep -q '^conv2d f16 .* WRONG' "$work/report.txt" && grep -q '^Verdict .* FAILED .* on HIP:0' "$work/report.txt" || bad "no report of a self-test that failed" "$out"
[[ "$out" == *"do not train on it; please report it and attach $work/report.txt"* ]] || bad "no advice after a self-test that failed" "$out"

# a card that goes while it predicts, validates or is checked for mixed precision: one error, exit code 1, nothing half-written
hip hip6 HIP_DOUBLE_DEVICES=gfx942
trains some hipGraphLaunch 0
cp "$work/run/weights/last.pt" "$work/model.pt"
goes() { # words of the program: the card is lost at a tenth, a third and half of the calls
  local total part rc
  rm -rf "$work/run"
  hip hip6 HIP_DOUBLE_DEVICES=gfx942
  out="$(said "$@")" || bad "a run without failures fails: $1" "$out"
  total="$(wc -l <"$work/calls")"
  for part in 10 3 2; do
    rm -rf "$work/run"
    hip hip6 HIP_DOUBLE_DEVICES=gfx942 HIP_DOUBLE_LOST=1 HIP_DOUBLE_FAIL="$((total / part)):719"
    rc=0
    out="$(said "$@")" || rc=$?
    [ "$rc" = 1 ] && [ "$(grep -c '^ERROR.*hip:0: error 719' <<<"$out")" = 1 ] || bad "$1, lost at 1/$part: exit code $rc" "$out"
    [ -z "$(find "$work/run" -name '*tmp*' 2>/dev/null)" ] || bad "$1, lost at 1/$part: files are left over" "$out"
  done
}
# the check of mixed precision belongs to fp16: bf16 and fp32 run without it
for pair in True=checks\ passed fp16=checks\ passed bf16= fp32= False=; do
  out="$(said train model="$few" data="$work/shapes/data.yaml" epochs=1 batch=2 imgsz=64 workers=0 plots=False val=False device=0 project="$work" name=run exist_ok=True amp="${pair%%=*}")"
  case "${pair#*=}" in
    "") [[ "$out" != *"AMP: "* ]] ;;
    *) [[ "$out" == *"AMP: ${pair#*=} ("* || "$out" == *"AMP: checks failed, so AMP is off and training runs in fp32: it is slower"* ]] ;;
  esac || bad "amp=${pair%%=*}: the check is not what it should be" "$out"
done
place=(project="$work" name=run exist_ok=True device=0 imgsz=64)
goes predict model="$work/model.pt" source="$work/shapes/images/train" conf=0.001 save_txt=True "${place[@]}"
goes val model="$work/model.pt" data="$work/shapes/data.yaml" plots=False save_json=True "${place[@]}"
goes train model="$few" data="$work/shapes/data.yaml" epochs=1 batch=2 workers=0 plots=False amp=True val=False "${place[@]}"

# NVIDIA's driver
cuda() { machine "$1" CUDA_DOUBLE_MB=512 CUDA_DOUBLE_LOG="$work/calls" "${@:2}"; }
cuda cuda CUDA_DOUBLE_DEVICES=sm_90,sm_120
expect "Device cuda:0          NVIDIA double 0, sm_90, 512 MiB, CUDA driver 12.8" checks
refuse "12.80" checks
expect "Device cuda:1          NVIDIA double 1, sm_120, 512 MiB, CUDA driver 12.8" checks
refuse "PyTorch calls" checks
trains some cuGraphLaunch cuda:0
cuda cuda CUDA_DOUBLE_DEVICES=sm_70
expect "NVIDIA double 0) has architecture sm_70, for which this build carries no code" checks
expect "this build carries no code: NVIDIA cards from sm_80 (Ampere) on can be used; use device=cpu" selftest device=0
cuda cuda_old CUDA_DOUBLE_DEVICES=sm_90
expect "libcuda.so.1 has no cuMemAlloc_v2: the NVIDIA driver is older than 11.1" checks
cuda cuda CUDA_DOUBLE_DEVICES=
expect "libcuda.so.1 finds no NVIDIA GPU (no CUDA-capable device is detected)" checks
for name in cuDeviceGetName cuDeviceGetAttribute cuDeviceTotalMem_v2 cuDeviceGet; do
  cuda cuda CUDA_DOUBLE_DEVICES=sm_90,sm_90 CUDA_DOUBLE_REFUSE="$name@0:999"
  expect "libcuda.so.1 shows cuda:0, which does not answer (the double's error)" checks
  refuse "Device cuda:0" checks
  trains some cuGraphLaunch 0
done
for name in cuDevicePrimaryCtxRetain cuCtxSetCurrent; do
  cuda cuda CUDA_DOUBLE_DEVICES=sm_90,sm_90 CUDA_DOUBLE_REFUSE="$name@0:46"
  expect "libcuda.so.1 shows cuda:0, which does not answer (the double's error)" checks
  expect "cuda:0: error 46 while selecting the device: the double's error: it is in exclusive use by another program" selftest device=0
  trains some cuGraphLaunch cuda:1
done
cuda cuda CUDA_DOUBLE_DEVICES=sm_90 CUDA_DOUBLE_REFUSE=cuDriverGetVersion:999
expect "CUDA driver of unknown version" checks
# error numbers that mean that the card is in use or gone
for row in "214 memory has an error" "222 update it" "700 please report it" "702 watchdog" "709 was reset" "710 stopped itself" "718 outside its code" \
  "719 lost or reset" "999 has lost the device"; do
  cuda cuda CUDA_DOUBLE_DEVICES=sm_90 CUDA_DOUBLE_FAIL="40:${row%% *}" CUDA_DOUBLE_LOST=1
  out="$(said selftest device=0 model=None report=None)" && bad "a lost device passes" "$out"
  [[ "$out" == *"cuda:0: error ${row%% *} while "*": the double's error: "*"${row#* }"* ]] || bad "error ${row%% *}: no meaning" "$out"
  [[ "$out" == *"Verdict                 FAILED "* ]] || bad "error ${row%% *}: no verdict" "$out"
done

# both vendors in one machine
both() { machine hip6+cuda HIP_DOUBLE_DEVICES="$1" CUDA_DOUBLE_DEVICES="$2"; }
chosen() { # what device= gets, the name
  expect "$2: error 801" selftest device="$1"
}
both gfx942 sm_90
refuse "PyTorch calls AMD's cards cuda" checks
for pair in =cuda:0 0=cuda:0 1=hip:0 cuda=cuda:0 cuda:0=cuda:0 hip=hip:0 hip:0=hip:0 gpu:1=hip:0 0,1=cuda:0 hip:0,cuda:0=hip:0 None=cuda:0; do chosen "${pair%=*}" "${pair##*=}"; done
expect "cannot be used" selftest device=cuda:1
expect "cannot be used" selftest device=hip:1
# a number that only a variable knows, of the vendor that the variable is for
shown() { machine hip6+cuda HIP_DOUBLE_DEVICES="$1" CUDA_DOUBLE_DEVICES="$2" "${@:3}"; }
shown gfx942 sm_90 HIP_VISIBLE_DEVICES=1 CUDA_VISIBLE_DEVICES=3
for pair in hip:1=hip:0 hip:0=hip:0 cuda:3=cuda:0 cuda:0=cuda:0 0=cuda:0 1=hip:0; do chosen "${pair%=*}" "${pair##*=}"; done
expect "cannot be used" selftest device=cuda:1
shown "" sm_90 HIP_VISIBLE_DEVICES=4 ROCR_VISIBLE_DEVICES=4
expect "cannot be used" selftest device=cuda:4
expect "cannot be used" selftest device=4
shown gfx942,gfx942 "" CUDA_VISIBLE_DEVICES=4,6
for pair in cuda:6=hip:1 4=hip:0 hip:6=hip:1; do chosen "${pair%=*}" "${pair##*=}"; done
shown gfx942 "" HIP_VISIBLE_DEVICES=GPU-0123456789abcdef
for pair in 0=hip:0 cuda:0=hip:0 hip:0=hip:0 -1=hip:0; do chosen "${pair%=*}" "${pair##*=}"; done
both gfx942 sm_70 # the one with code comes first; a card named by its vendor is that card
for pair in =hip:0 0=hip:0 hip:0=hip:0 -1=hip:0; do chosen "${pair%=*}" "${pair##*=}"; done
expect "sm_70" selftest device=cuda:0
both gfx803 sm_70 # nothing that could be used: the processor, and a line that says so
expect "cuda:0 (NVIDIA double 0) is not used, because this build has no code for sm_70" selftest device= model=None report=None
expect "Verdict                 PASSED  all" selftest device= model=None report=None
both gfx942i sm_90
for pair in =cuda:0 1=hip:0 -1=cuda:0; do chosen "${pair%=*}" "${pair##*=}"; done
both gfx942 sm_90i
for pair in =hip:0 1=cuda:0 -1=hip:0; do chosen "${pair%=*}" "${pair##*=}"; done

# the banner names the vendor, however the card calls itself
for name in "Radeon RX 7900 XTX" "" "AMD Radeon RX 7900 XTX"; do
  hip hip6 HIP_DOUBLE_DEVICES=gfx1100 HIP_DOUBLE_NAME="$name"
  expect "HIP:0 (AMD$([ -z "$name" ] || echo " ${name#AMD }"), gfx1100, 512MiB, HIP runtime 6.4, driver 6.4)" train model="$few" data="$work/shapes/data.yaml" epochs=1 \
    batch=2 imgsz=64 amp=False workers=0 plots=False device=0 project="$work" name=run exist_ok=True
done
cuda cuda CUDA_DOUBLE_DEVICES=sm_90 CUDA_DOUBLE_NAME="Tesla T4"
expect "Device cuda:0          NVIDIA Tesla T4, sm_90" checks
[ "$failures" = 0 ] && echo "GPU libraries: fine"
exit $((failures > 0))
