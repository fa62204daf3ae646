#!/bin/bash
# Tests the test tools themselves. The comparison by compare.py must find each
# planted difference, and nothing on equal pairs. The writers workload.py, busy.py
# and schema_changes.py must run on plain databases and leave them sound.
#
#     Tests/Tools/selftest.sh [seconds of workload, default 3]
#
# Exit status 0 if everything passed.
set -u
seconds=${1:-3}
python=${PYTHON:-/usr/bin/python3}
here=$(cd "$(dirname "$0")" && pwd)
sample=$here/../../docs/demo/sample.sql
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0
failed=0

pass() { passed=$((passed + 1)); echo "ok    $1"; }
fail() { failed=$((failed + 1)); echo "FAIL  $1"; }

# run_sql DB SQL: the sqlite3 command need not be installed.
run_sql() {
    "$python" - "$1" "$2" <<'PY'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.executescript(sys.argv[2])
PY
}

# pair SQL_A SQL_B: two databases from the sample, each changed by its SQL.
pair() {
    cp "$scratch/base.db" "$scratch/a.db"
    cp "$scratch/base.db" "$scratch/b.db"
    [ -z "$1" ] || run_sql "$scratch/a.db" "$1"
    [ -z "$2" ] || run_sql "$scratch/b.db" "$2"
}

# differs NAME TABLE SQL_A SQL_B [options]: the difference is found, in that table only.
differs() {
    local name=$1 table=$2 status output
    pair "$3" "$4"
    shift 4
    output=$("$python" "$here/compare.py" "$scratch/a.db" "$scratch/b.db" "$@" 2>&1)
    status=$?
    if [ $status -eq 1 ] && echo "$output" | grep -q "^$table: " &&
        ! echo "$output" | grep -v -e "^$table: " -e "^different: .* 1 with differences" | grep -q .
    then pass "found: $name"; else fail "not found: $name (exit $status): $output"; fi
}

# same NAME SQL_A SQL_B [options]: no difference is reported.
same() {
    local name=$1 status output
    pair "$2" "$3"
    shift 3
    output=$("$python" "$here/compare.py" "$scratch/a.db" "$scratch/b.db" "$@" 2>&1)
    status=$?
    if [ $status -eq 0 ]; then pass "equal: $name"; else fail "not equal: $name (exit $status): $output"; fi
}

run_sql "$scratch/base.db" "$(cat "$sample")" || { echo "cannot load the sample"; exit 1; }

same "untouched copies" "" "" --schema
same "after VACUUM" "" "VACUUM" --schema
same "rows in another order" "" "
    CREATE TABLE t AS SELECT * FROM tide ORDER BY level_m DESC, at DESC;
    DELETE FROM tide; INSERT INTO tide SELECT * FROM t; DROP TABLE t"
same "other rowids where they do not show" "" "UPDATE tide SET rowid = rowid + 100000"
same "tables named cairn_* and their triggers and indexes" "" "
    CREATE TABLE cairn_log(a); INSERT INTO cairn_log VALUES (1);
    CREATE INDEX cairn_ix ON tide(station);
    CREATE TRIGGER cairn_t AFTER INSERT ON tide BEGIN INSERT INTO cairn_log VALUES (2); END" --schema
same "full-text content" "" "INSERT INTO log_search VALUES ('x', 'y')"
same "blanks and comments in CREATE TABLE" "CREATE TABLE w(a INT,b TEXT)" "
    CREATE TABLE w( a  INT, -- first
       b TEXT )" --schema
same "index missing, without --schema" "" "DROP INDEX log_by_day"

differs "a value" ship "" "UPDATE ship SET name = 'Other' WHERE id = 5"
differs "a missing row" crew "" "DELETE FROM crew WHERE id = 200"
differs "an extra row" buoy "" "INSERT INTO buoy VALUES ('Z1', 'red', 0, 0, 0)"
differs "text against blob of the same bytes" berth "" \
    "UPDATE berth SET note = CAST(note AS BLOB) WHERE note = 'crane 0'"
differs "integer against real" ship "UPDATE ship SET flag = 1 WHERE id = 1" \
    "UPDATE ship SET flag = 1.0 WHERE id = 1"
differs "integer against text" ship "UPDATE ship SET flag = 1 WHERE id = 1" \
    "UPDATE ship SET flag = '1' WHERE id = 1"
differs "0.0 against -0.0" ship "UPDATE ship SET flag = 0.0 WHERE id = 1" \
    "UPDATE ship SET flag = -0.0 WHERE id = 1"
differs "the last bit of a real" buoy "" "UPDATE buoy SET lat = lat + 7.2e-15 WHERE code = 'G01'"
differs "neighbours beyond 2^53" ship "UPDATE ship SET flag = 9007199254740992 WHERE id = 1" \
    "UPDATE ship SET flag = 9007199254740993 WHERE id = 1"
differs "NULL against empty text" log_entry "" "UPDATE log_entry SET author = '' WHERE id = 5"
differs "text after an embedded NUL" log_entry \
    "UPDATE log_entry SET body = CAST(x'610062' AS TEXT) WHERE id = 9" \
    "UPDATE log_entry SET body = CAST(x'610063' AS TEXT) WHERE id = 9"
differs "invalid UTF-8" log_entry "UPDATE log_entry SET body = CAST(x'61ff' AS TEXT) WHERE id = 9" \
    "UPDATE log_entry SET body = CAST(x'61fe' AS TEXT) WHERE id = 9"
differs "letter case in a NOCASE column" ship "" "UPDATE ship SET name = upper(name) WHERE id = 1"
differs "composed against decomposed text" log_entry \
    "UPDATE log_entry SET body = char(233) WHERE id = 9" \
    "UPDATE log_entry SET body = 'e' || char(769) WHERE id = 9"
differs "a trailing blank" berth "" "UPDATE berth SET note = ' ' WHERE note = ''"
differs "how often equal rows occur" tide "INSERT INTO tide VALUES ('d', 1, 1), ('d', 1, 1), ('e', 1, 1)" \
    "INSERT INTO tide VALUES ('d', 1, 1), ('e', 1, 1), ('e', 1, 1)"
differs "a row with key NULL" buoy "" "UPDATE buoy SET lit = 1 WHERE code IS NULL"
differs "a generated column only" g "
    CREATE TABLE g(a INT, b AS (a + 1)); INSERT INTO g VALUES (1)" "
    CREATE TABLE g(a INT, b AS (a + 2)); INSERT INTO g VALUES (1)"
differs "a table only in A" extra "CREATE TABLE extra(a)" ""
differs "a table only in B" extra "" "CREATE TABLE extra(a)"
differs "a column more" tide "" "ALTER TABLE tide ADD COLUMN extra"
differs "a column renamed" tide "" "ALTER TABLE tide RENAME COLUMN level_m TO height_m"

differs "schema: a declared type" w "CREATE TABLE w(a INT)" "CREATE TABLE w(a INTEGER)" --schema
differs "schema: NOT NULL" w "CREATE TABLE w(a INT)" "CREATE TABLE w(a INT NOT NULL)" --schema
differs "schema: a default" w "CREATE TABLE w(a INT DEFAULT 1)" "CREATE TABLE w(a INT DEFAULT 2)" --schema
differs "schema: the key" w "CREATE TABLE w(a INT, b INT, PRIMARY KEY (a, b))" \
    "CREATE TABLE w(a INT, b INT, PRIMARY KEY (b, a))" --schema
differs "schema: an index missing" log_entry "" "DROP INDEX log_by_day" --schema
differs "schema: an index not unique" visit "" "DROP INDEX visit_open_berth;
    CREATE INDEX visit_open_berth ON visit(quay, berth_number) WHERE departed IS NULL" --schema
differs "schema: an index expression" log_entry "" "DROP INDEX log_by_day;
    CREATE INDEX log_by_day ON log_entry(substr(at, 1, 7))" --schema
differs "schema: a foreign key action" w "CREATE TABLE w(a REFERENCES ship(id) ON DELETE CASCADE)" \
    "CREATE TABLE w(a REFERENCES ship(id))" --schema
differs "schema: a CHECK" w "CREATE TABLE w(a CHECK (a > 0))" "CREATE TABLE w(a CHECK (a > 1))" --schema

# Only what --tables names counts.
pair "" "DELETE FROM tide"
"$python" "$here/compare.py" "$scratch/a.db" "$scratch/b.db" --tables 'ship,c*' >/dev/null &&
    pass "--tables leaves others out" || fail "--tables leaves others out"
"$python" "$here/compare.py" "$scratch/a.db" "$scratch/absent.db" >/dev/null 2>&1
[ $? -eq 2 ] && pass "exit 2 for a missing file" || fail "exit 2 for a missing file"
"$python" "$here/compare.py" "$scratch/a.db" "$here/compare.py" >/dev/null 2>&1
[ $? -eq 2 ] && pass "exit 2 for a file that is no database" || fail "exit 2 for a file that is no database"

# check_sound NAME DB: integrity, and equal to a copy by the backup API.
check_sound() {
    rm -f "$scratch"/copy.db*
    if "$python" - "$2" "$scratch/copy.db" <<'PY' && "$python" "$here/compare.py" "$2" "$scratch/copy.db" --schema >/dev/null
import sqlite3, sys
source, target = sqlite3.connect(sys.argv[1]), sqlite3.connect(sys.argv[2])
source.backup(target)
sys.exit(source.execute("PRAGMA integrity_check").fetchall() != [("ok",)])
PY
    then pass "$1"; else fail "$1"; fi
}

# One process: the same seed gives the same database. (log_entry has a default of the current time.)
for name in one two; do
    cp "$scratch/base.db" "$scratch/$name.db"
    "$python" "$here/workload.py" "$scratch/$name.db" --seed 11 --transactions 150 >/dev/null ||
        fail "workload, one process"
done
"$python" "$here/compare.py" "$scratch/one.db" "$scratch/two.db" \
    --tables 'operator,ship,berth,visit,cargo,crew,buoy,tariff,tide' >/dev/null &&
    pass "workload repeats itself" || fail "workload repeats itself"
"$python" "$here/compare.py" "$scratch/base.db" "$scratch/one.db" >/dev/null
[ $? -eq 1 ] && pass "workload changes something" || fail "workload changes something"

for mode in wal delete; do
    db=$scratch/work-$mode.db
    cp "$scratch/base.db" "$db"
    run_sql "$db" "PRAGMA journal_mode = $mode"
    pids=()
    for process in 1 2 3; do
        "$python" "$here/workload.py" "$db" --seed 5 --process $process --seconds "$seconds" \
            --mark --log "$scratch/log-$mode-$process" >"$scratch/summary-$mode-$process" &
        pids+=($!)
    done
    good=1
    for pid in "${pids[@]}"; do wait "$pid" || good=0; done
    [ $good -eq 1 ] && pass "workload, 3 processes, $mode" ||
        fail "workload, 3 processes, $mode: $(cat "$scratch"/summary-$mode-*)"
    check_sound "sound after workload, $mode" "$db"
    "$python" - "$db" "$scratch/log-$mode-" <<'PY' && pass "log and marks agree, $mode" || fail "log and marks agree, $mode"
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
for process in (1, 2, 3):
    logged = [int(line) for line in open(sys.argv[2] + str(process))]
    marked = [seq for seq, in db.execute(
        "SELECT seq FROM workload_marks WHERE process = ? ORDER BY seq", (process,))]
    if logged != marked or not logged:
        sys.exit(1)
PY
done

"$python" "$here/schema_changes.py" "$scratch/changes.db" --init >"$scratch/changes.out" &&
    pass "schema changes" || fail "schema changes: $(grep -v '"ok"' "$scratch/changes.out")"
check_sound "sound after schema changes" "$scratch/changes.db"

# A trigger of another program keeps a column from being dropped.
hook='CREATE TRIGGER cairn_u AFTER UPDATE ON sc_drop_col BEGIN SELECT new.c; END'
step=$("$python" "$here/schema_changes.py" --list | awk '$2 == "drop_column" { print $1 }')
"$python" "$here/schema_changes.py" "$scratch/hook.db" --init --count 0 >/dev/null
run_sql "$scratch/hook.db" "$hook"
"$python" "$here/schema_changes.py" "$scratch/hook.db" --start "$step" --count 1 |
    grep -q '"status": "skipped"' && pass "DROP COLUMN skipped" || fail "DROP COLUMN skipped"
unhook="$python -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute(\"DROP TRIGGER cairn_u\")' {db} {table}"
"$python" "$here/schema_changes.py" "$scratch/hook.db" --start "$step" --count 1 --seed 2 \
    --unhook-command "$unhook" --rehook-command "true {table}" |
    grep -q '"status": "ok"' && pass "DROP COLUMN unhooked" || fail "DROP COLUMN unhooked"

cp "$scratch/base.db" "$scratch/busy.db"
"$python" "$here/busy.py" "$scratch/busy.db" --seconds 1 | grep -q '"busy": 0' &&
    pass "busy.py alone sees no busy" || fail "busy.py alone sees no busy"
"$python" - "$scratch/busy.db" "$scratch/locked" <<'PY' &
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
open(sys.argv[2], "w").close()
time.sleep(1)
db.execute("ROLLBACK")
PY
for _ in $(seq 50); do [ -e "$scratch/locked" ] || sleep 0.1; done
"$python" "$here/busy.py" "$scratch/busy.db" --seconds 1 | grep -q '"busy": [1-9]' &&
    pass "busy.py sees another writer" || fail "busy.py sees another writer"
wait

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
