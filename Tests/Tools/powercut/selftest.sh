#!/bin/sh
# Compiles the recorder into a temporary folder and proves recorder and replay.
# Needs gcc and python3 with the sqlite3 module. Non-zero exit on failure.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/powercut.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
gcc -shared -fPIC -O2 -Wall -Wextra -Werror -o "$work/librecorder.so" "$here/recorder.c" -ldl
PYTHONDONTWRITEBYTECODE=1 python3 "$here/selftest.py" "$work"
