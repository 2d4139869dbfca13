#!/usr/bin/env bash
# usage: docs.sh path/to/yolo path/to/docs/cli.md — the reference in the tree is what the program prints.
diff -u "$2" <("$1" help --markdown) || { echo "run: build/yolo help --markdown > docs/cli.md"; exit 1; }
