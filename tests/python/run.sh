#!/usr/bin/env bash
# usage: run.sh test.py — with the interpreter that ONELOOK_PYTHON names, else python3; 77 (skipped) when there is none.
python="${ONELOOK_PYTHON:-python3}"
command -v "$python" > /dev/null || { echo "skipped: no $python"; exit 77; }
exec "$python" "$1"
