#!/usr/bin/env bash
# usage: gpu_checks.sh path/to/yolo folder/of/doubles
# 'yolo checks' and device= with AMD devices that a stand-in for the runtime shows.
set -u
yolo="$(realpath "$1")" code="$(realpath "$(dirname "$0")/../support/has_code.sh")"
export LD_LIBRARY_PATH="$2" LC_ALL=C.UTF-8 NO_COLOR=1 CUDA_VISIBLE_DEVICES=-1
unset HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES GPU_DEVICE_ORDINAL HSA_OVERRIDE_GFX_VERSION
if ! "$code" "$yolo" gfx942; then echo "skipped: this build has no code for gfx942"; exit 77; fi
failures=0
# expect TEXT COMMAND…: the output holds TEXT, literally
expect() {
  local text="$1" out
  shift
  out="$(env "$@" 2>&1)"
  case "$out" in
    *"$text"*) ;;
    *) echo "not in the output of $*: $text"; echo "$out" | tail -8; failures=$((failures + 1)) ;;
  esac
}
refuse() {
  local text="$1" out
  shift
  out="$(env "$@" 2>&1)"
  case "$out" in *"$text"*) echo "must not be in the output of $*: $text"; failures=$((failures + 1)) ;; esac
}
# no device
expect "libamdhip64.so.6 finds no AMD GPU (no ROCm-capable device is detected)" "$yolo" checks
expect "HIP_VISIBLE_DEVICES=3 and ROCR_VISIBLE_DEVICES=1" HIP_VISIBLE_DEVICES=3 ROCR_VISIBLE_DEVICES=1 "$yolo" checks
expect "hide every card" HIP_VISIBLE_DEVICES=3 ROCR_VISIBLE_DEVICES=1 "$yolo" checks
expect "HIP_VISIBLE_DEVICES=7 and CUDA_VISIBLE_DEVICES=-1 limits" HIP_VISIBLE_DEVICES=7 "$yolo" checks
expect "finds no AMD GPU (the double's error)" HIP_DOUBLE_DEVICES=gfx942 HIP_DOUBLE_ERROR=101 "$yolo" checks
expect "'device=0' cannot be used: no GPU was found" "$yolo" selftest device=0
# one
expect "Device hip:0           AMD double 0, gfx942, 16384 MiB, HIP runtime 6.4, driver 6.4" HIP_DOUBLE_DEVICES=gfx942 "$yolo" checks
expect "PyTorch calls AMD's cards cuda" HIP_DOUBLE_DEVICES=gfx942 "$yolo" checks
refuse "what a program sees" HIP_DOUBLE_DEVICES=gfx942 "$yolo" checks
expect "HSA_OVERRIDE_GFX_VERSION=10.3.0 makes the driver report" HIP_DOUBLE_DEVICES=gfx942 HSA_OVERRIDE_GFX_VERSION=10.3.0 "$yolo" checks
expect "error 801 while creating a stream" HIP_DOUBLE_DEVICES=gfx942 "$yolo" selftest device=0
# one without code
expect "has architecture gfx803, for which this build carries no code" HIP_DOUBLE_DEVICES=gfx803 "$yolo" checks
expect "the nearest architecture with code is gfx9" HIP_DOUBLE_DEVICES=gfx909 "$yolo" selftest device=hip:0
# an integrated one first: the discrete one is taken
expect "driver 6.4, reaches the memory of hip:2" HIP_DOUBLE_DEVICES=gfx942,gfx942i,gfx942 "$yolo" checks
refuse "reaches" HIP_DOUBLE_DEVICES=gfx942,gfx942i "$yolo" checks
expect "no code for its architecture" HIP_DOUBLE_DEVICES=gfx942i,gfx803 "$yolo" checks
expect "hip:1: error 801" HIP_DOUBLE_DEVICES=gfx942i,gfx942 "$yolo" selftest device=0
expect "hip:1: error 801" HIP_DOUBLE_DEVICES=gfx942i,gfx942 "$yolo" selftest device=cuda:0
expect "hip:0: error 801" HIP_DOUBLE_DEVICES=gfx942i,gfx942 "$yolo" selftest device=1
expect "the BIOS gives it only 512 MiB" HIP_DOUBLE_DEVICES=gfx942i,gfx942 "$yolo" checks
# every way to name a device: an integrated card first, then two others
chosen() { # what device= gets, the name
  expect "$2: error 801" HIP_DOUBLE_DEVICES=gfx942i,gfx942,gfx942 HIP_DOUBLE_FREE=15,3,9 "$yolo" selftest "device=$1"
}
for pair in =hip:1 None=hip:1 0=hip:1 00=hip:1 1=hip:2 2=hip:0 cuda=hip:1 cuda:0=hip:1 cuda:2=hip:0 gpu=hip:1 gpu:1=hip:2 hip=hip:1 hip:0=hip:0 HIP:2=hip:2 -1=hip:2 \
  hip:-1=hip:2 0,1=hip:1 [2,1]=hip:0 '(1,)=hip:2' "['hip:2','0']=hip:2" cuda:1,cuda:0=hip:2 -1,-1=hip:2 -1,0=hip:2 0,-1=hip:1 " 1 =hip:2"; do chosen "${pair%=*}" "${pair##*=}"; done
expect "using hip:1 alone" HIP_DOUBLE_DEVICES=gfx942,gfx942 "$yolo" selftest device=hip:1,hip:0
wrong() { expect "$2" HIP_DOUBLE_DEVICES=gfx942i,gfx942,gfx942 "$yolo" selftest "device=$1"; }
for text in -2 --1 1e3 0.5 '0;1' cuda: hip:x 0:1 cuda0 hip0 gpu:-2 99999999999999999999 1x true 0-1 cpu:0 cpu,0 '*' 0x1; do wrong "$text" "is not a device"; done
for text in 3 hip:3 0,7 cuda:9 -1,-1,-1,-1; do wrong "$text" "this machine has 3 GPUs"; done
for text in 0,0 0,hip:1 0,-1,1,2; do wrong "$text" "twice"; done
wrong npu:0 "are unknown to Onelook"
expect "hip:1: error 801" HIP_VISIBLE_DEVICES=4,6 HIP_DOUBLE_DEVICES=gfx942,gfx942 "$yolo" selftest device=6 # the second of the visible ones
# of two that are equally busy the first; an integrated one with code before a card without
expect "hip:0: error 801" HIP_DOUBLE_DEVICES=gfx942,gfx942 HIP_DOUBLE_FREE=7,7 "$yolo" selftest device=-1
expect "hip:1: error 801" HIP_DOUBLE_DEVICES=gfx803,gfx942i "$yolo" selftest device=0
expect "hip:1: error 801" HIP_DOUBLE_DEVICES=gfx803,gfx942i HIP_DOUBLE_FREE=7,3 "$yolo" selftest device=-1
# the least busy one has code and is no integrated one, whatever memory others have
expect "hip:2: error 801" HIP_DOUBLE_DEVICES=gfx803,gfx942i,gfx942 HIP_DOUBLE_FREE=15,14,1 "$yolo" selftest device=-1
# a runtime where AMD's packages put it, which the loader does not know
prefix="$(mktemp -d)"
trap 'rm -rf "$prefix"' EXIT
mkdir -p "$prefix/lib"
cp "$LD_LIBRARY_PATH/libamdhip64.so.6" "$prefix/lib/"
unset LD_LIBRARY_PATH
expect "Device hip:0           AMD double 0" ROCM_PATH="$prefix" HIP_DOUBLE_DEVICES=gfx942 "$yolo" checks
echo "no library" >"$prefix/lib/libamdhip64.so.6"
expect "does not load" ROCM_PATH="$prefix" "$yolo" checks
# every cause that a note can have stands in the table of docs/amd.md
source="$(cd "$(dirname "$0")/../.." && pwd)"
for id in $(grep -oE '\{"[a-z]+(-[a-z]+)*", [a-z_]+\}|tell\(r, "[a-z-]+"' "$source/src/device/gpu/diagnosis.c" | cut -d'"' -f2); do
  grep -qE "^\|.*\b$id\b" "$source/docs/amd.md" || { echo "not in docs/amd.md: $id"; failures=$((failures + 1)); }
done
[ "$failures" = 0 ] && echo "GPU checks: fine"
exit $((failures > 0))
