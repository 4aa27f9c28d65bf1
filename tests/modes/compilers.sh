#!/bin/bash
# Every C file compiles without a warning under gcc and under clang, whichever of them built netc.
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1
for cc in gcc clang; do
    if ! command -v $cc >/dev/null; then skip "$cc is not installed"; continue; fi
    expect 0 "" make --no-print-directory BUILD="$BUILD" CC=$cc syntax
done
finish
