#!/usr/bin/env bash
# usage: has_code.sh path/to/yolo target — does the build that the program is of carry code for the target (gfx942, ptx)? The archive
# is asked, not the program: a program that no longer knows its targets must fail tests, not skip them. Without an archive
# beside the program: yes.
archive="$(dirname "$1")/kernels.bin"
[ ! -f "$archive" ] || LC_ALL=C grep -aqP "$2\\x00" "$archive"
