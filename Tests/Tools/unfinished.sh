#!/bin/sh
# Prints the tests that had begun, and not ended, when the log of a test run ends.
sed -nE 's/^. Test (".*"|[^ ]*\(.*\)) (with [0-9]+ test cases? )?(started|passed|failed).*/\3 \1/p' "$1" | awk '
  { name = substr($0, length($1) + 2) }
  $1 == "started" { begun[name]; next }
  { delete begun[name] }
  END { for (name in begun) print "  begun, not ended: " name }' | sort | head -n 40
