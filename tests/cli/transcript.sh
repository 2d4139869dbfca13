#!/usr/bin/env bash
# usage: transcript.sh path/to/yolo file.transcript [--update]
# Replays the "$ yolo …" lines of a transcript in an empty folder and compares what the program prints (stdout and stderr in
# order, exit code when it is not 0). Times, the processor's name and the folder are replaced, as they differ between machines.
# Lines "$ set NAME=VALUE" set an environment variable; other "$ …" lines run as they are. {SHARED} is the folder of weights and pictures.
set -u
yolo="$(realpath "$1")"
file="$(realpath "$2")"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
export LC_ALL=C.UTF-8 CUDA_VISIBLE_DEVICES=-1 HIP_VISIBLE_DEVICES=-1 # the same words in every language, with and without a GPU
export HOME="$work/home" ONELOOK_CONFIG_DIR="$work/home/config" XDG_CACHE_HOME="$work/home/cache" NO_COLOR=1
unset YOLO_VERBOSE YOLO_CONFIG_DIR
mkdir -p "$HOME" "$work/run"
cd "$work/run" || exit 1
shared="${ONELOOK_SHARED:-$(dirname "$yolo")/../../shared}"
[ -d "$shared" ] && shared="$(realpath "$shared")"
if grep -q '{SHARED}' "$file" && [ ! -d "$shared" ]; then echo "skipped: needs $shared"; exit 77; fi

clean() {
  sed -E -e "s#$work/run#DIR#g" -e "s#$work/home#HOME#g" -e "s#$shared#{SHARED}#g" -e 's/[0-9]+\.[0-9]ms/N ms/g' -e 's/oneDNN-[0-9.]+ CPU \(.*\)/oneDNN-N CPU (NAME)/' \
    -e 's/Onelook [0-9.]+ /Onelook V /' -e 's/[0-9]+\.[0-9]{3} hours/N hours/' -e 's/✅ [0-9.]+s/✅ N s/'
}
while IFS= read -r line; do
  case "$line" in
    '$ set '*) echo "$line"; export "${line#\$ set }" ;;
    '$ '*)
      echo "$line"
      command="${line#\$ }"
      command="${command//\{SHARED\}/$shared}"
      (yolo() { "$yolo" "$@"; }; eval "$command") > "$work/out.log" 2>&1 < /dev/null
      code=$?
      clean < "$work/out.log"
      [ $code = 0 ] || echo "[exit $code]" ;;
  esac
done < "$file" > "$work/now"
if [ "${3:-}" = --update ]; then cp "$work/now" "$file"; exit 0; fi
diff -u "$file" "$work/now" || { echo "the transcript differs; if it is right now: $0 $1 $2 --update"; exit 1; }
