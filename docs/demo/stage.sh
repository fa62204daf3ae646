# The common functions of the demos; sourced by run.sh, with the path of cairn as its first argument.
#
# The demo works in a temporary folder, which is removed at the end with all programs that were started.
set -euo pipefail
export LC_ALL=C
unset "${!PG@}"
exec </dev/null

cairn=$(realpath "${1:-$here/../../.build/release/cairn}")
tools=$(realpath "$here/../../Tests/Tools")
compare=$tools/compare.py
# Short, since a server's socket is in it.
folder=$(mktemp -d /tmp/cairn-demo.XXXXXX)
# The server may run as another user.
chmod 711 "$folder"
declare -A pids=()
finish() {
  for name in "${!pids[@]}"; do kill -9 "${pids[$name]}" 2>/dev/null || true; done
  [ ! -d "$folder/pg" ] || "$tools/pgserver.sh" stop "$folder/pg" || true
  rm -rf "$folder"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP
cd "$folder"

bold= plain= dim=
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'; fi
title() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
command_line() { printf '%s$ %s%s\n' "$dim" "$*" "$plain"; }
indent() { sed -e "s|host=$folder/pg|host=pg|g" -e "s|$folder/||g" -e 's/^/  /'; }
die() {
  printf '\ndemo failed: %s\n' "$*" >&2
  for log in *.log; do
    [ -s "$log" ] || continue
    echo "what ${log%.log} said:" >&2
    tail -n 20 "$log" >&2
  done
  exit 1
}

microseconds() { echo "${EPOCHREALTIME/./}"; }
milliseconds_since() { echo $((($(microseconds) - $1) / 1000)); }

# until_target_says QUERY ANSWER: asks with target_sql until it does; fails after 10 seconds.
until_target_says() {
  local began answer
  began=$(microseconds)
  while true; do
    answer=$(target_sql "$1" 2>/dev/null || true)
    if [ "$answer" = "$2" ]; then return 0; fi
    if [ "$(milliseconds_since "$began")" -gt 10000 ]; then
      die "the target answers '$answer' to '$1', not '$2'"
    fi
    all_run
  done
}

# change WHAT SQL QUERY ANSWER: runs SQL with source_sql and waits for the answer at the target.
change() {
  local began
  printf '\n%s\n%s  %s%s\n' "$1" "$dim" "$2" "$plain"
  source_sql "$2" >/dev/null
  began=$(microseconds)
  until_target_says "$3" "$4"
  printf '  at the target after %3d ms: %s\n' "$(milliseconds_since "$began")" "$4"
}

# follow NAME FROM TO STATE [OPTION...]: starts a replication; what it says goes to NAME.log.
follow() {
  : >"$1.log"
  "$cairn" replicate --from "$2" --to "$3" --state "$4" "${@:5}" >"$1.log" 2>&1 &
  pids[$1]=$!
}
said() { cat "$1.log"; }
all_run() {
  local name
  for name in "${!pids[@]}"; do kill -0 "${pids[$name]}" 2>/dev/null || die "$name has ended"; done
}
until_says() {
  local began
  began=$(microseconds)
  until grep -q "$2" "$1.log"; do
    all_run
    if [ "$(milliseconds_since "$began")" -gt 15000 ]; then die "$1 does not say '$2'"; fi
    sleep 0.02
  done
}
stop() {
  kill -TERM "${pids[$1]}"
  wait "${pids[$1]}" || die "$1 did not stop as it should"
  unset "pids[$1]"
}
crash() {
  command_line "kill -9 ${pids[$1]}"
  kill -9 "${pids[$1]}"
  wait "${pids[$1]}" 2>/dev/null || true
  unset "pids[$1]"
}
