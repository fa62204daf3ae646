#!/bin/bash
# The files of replications that a build of Cairn leaves, for the test that a newer build goes on with them.
#
#     old_state.sh PROGRAMS FOLDER      runs PROGRAMS/cairn and PROGRAMS/cairnd; leaves the files in FOLDER, which is new
#
# One daemon applies source.db to copy.db and to a database of PostgreSQL, whose dump is copy.sql. At both targets
# a table is suspended, two transactions are in quarantine, and a conflict is in the log. A two-way 'cairn replicate' has
# left a conflict and a waiting row in left.db and right.db. In conf/cairn.toml, @HERE@ is the folder. @SERVER@ is the URL
# of the target database.
set -euo pipefail
[ $# = 2 ] || { sed -n '4s/^# *//p' "$0" >&2; exit 64; }
programs=$(cd "$1" && pwd)
mkdir "$2"
out=$(cd "$2" && pwd)
tools=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d /tmp/cairn-old.XXXXXX)
server=$work.pg
"$tools/pgserver.sh" start "$server" >/dev/null
daemon= pair=
end() {
  for child in $daemon $pair; do kill "$child" 2>/dev/null && wait "$child" || true; done
  "$tools/pgserver.sh" stop "$server" >/dev/null
  rm -rf "$work"
}
trap end EXIT
url="postgresql:///copy?host=$server&user=postgres"
psql=(psql -qAtX "$url" -v ON_ERROR_STOP=1 -c)
"${psql[@]/\/copy\?//postgres?}" 'CREATE DATABASE copy'
cd "$work"
mkdir conf

sql() { sqlite3 -cmd ".timeout 10000" "$@"; }

# Waits until a command says what is expected.
await() {
  local expected=$1
  shift
  for _ in $(seq 300); do
    [ "$("$@" 2>/dev/null)" != "$expected" ] || return 0
    sleep 0.2
  done
  echo "old_state.sh: '$*' does not come to '$expected': $("$@" 2>&1)" >&2
  cat daemon.log pair.log >&2
  exit 1
}
both() { sql copy.db "$1" && "${psql[@]}" "$1"; }
await_both() { await "$1" sql copy.db "$2" && await "$1" "${psql[@]}" "$2"; }

# One way, by a daemon.
tables='CREATE TABLE item(id INTEGER PRIMARY KEY, n INTEGER); CREATE TABLE mine(id INTEGER PRIMARY KEY, a TEXT);'
sql source.db "PRAGMA journal_mode = WAL; $tables CREATE TABLE own(id INTEGER PRIMARY KEY, a TEXT);
  INSERT INTO item VALUES (1, 1); INSERT INTO mine VALUES (1, 'one'); INSERT INTO own VALUES (1, 'one'), (2, 'two')" \
  >/dev/null
sql copy.db "PRAGMA journal_mode = WAL; $tables" >/dev/null
"${psql[@]}" "$tables"
cat >conf/cairn.toml <<'END'
[node]
name = "old"
state = "@HERE@/state"

[database.source]
url = "sqlite://@HERE@/source.db"

[database.copy]
url = "sqlite://@HERE@/copy.db"

[database.server]
url = "@SERVER@"

[capture.shop]
database = "source"

[apply.copy]
trail = "old.shop"
database = "copy"
on_error = "quarantine"

[[apply.copy.table]]
from = "own"
local_writes = "allow"

[apply.server]
trail = "old.shop"
database = "server"
on_error = "quarantine"

[[apply.server.table]]
from = "own"
local_writes = "allow"
END
mkdir run
sed -e "s,@HERE@,$work,; s,@SERVER@,${url//&/\\&}," conf/cairn.toml >run/cairn.toml
RUNTIME_DIRECTORY=$work "$programs/cairnd" --config run/cairn.toml >daemon.log 2>&1 &
daemon=$!
await_both 2 'SELECT count(*) FROM own'
both "UPDATE own SET a = 'written here' WHERE id = 1"
both 'CREATE UNIQUE INDEX strict ON item(n)'
sql source.db "UPDATE own SET a = 'from the source' WHERE id = 1"
sql source.db 'INSERT INTO item VALUES (2, 1)'
sql source.db 'UPDATE item SET n = 5 WHERE id = 2'
sql source.db "ALTER TABLE mine ADD COLUMN b INTEGER; INSERT INTO mine VALUES (2, 'two', 2)"
sql source.db "INSERT INTO item VALUES (3, 3)"
await_both 2 'SELECT count(*) FROM item'
status() { "$programs/cairn" status --socket "$work/control" --json; }
held() { echo $(status | grep -o '"quarantined":[0-9]*' | cut -d: -f2 | grep -v '^0$'); }
await '2 2' held
kill "$daemon" && wait "$daemon"
daemon=
pg_dump "$url" >copy.sql

# Two-way, by the command.
sql left.db "PRAGMA journal_mode = WAL; CREATE TABLE card(id INTEGER PRIMARY KEY, code TEXT UNIQUE, n INTEGER);
  INSERT INTO card VALUES (1, 'a', 0)" >/dev/null
sql right.db 'PRAGMA journal_mode = WAL' >/dev/null
replicate=("$programs/cairn" replicate --from sqlite:left.db --to sqlite:right.db --two-way --state pair)
"${replicate[@]}" --once >>pair.log 2>&1
sql left.db "UPDATE card SET n = 1 WHERE id = 1; INSERT INTO card VALUES (10, 'x', 1)"
sql right.db "UPDATE card SET n = 2 WHERE id = 1; INSERT INTO card VALUES (20, 'x', 2)"
"${replicate[@]}" --once >>pair.log 2>&1
for file in left right; do sql $file.db 'SELECT group_concat(id) FROM card'; done

for file in source copy left right; do sql $file.db 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null; done
cp -r conf state pair source.db copy.db left.db right.db copy.sql "$out"
