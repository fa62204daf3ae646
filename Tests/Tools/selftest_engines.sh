#!/bin/bash
# Tests compare_engines.py, compare_schemas.py, plant.py, check_compare.py, workload_pg.py and schema_changes_pg.py:
# each planted difference is found, and nothing on equal pairs.
#
#     Tests/Tools/selftest_engines.sh
#
# Starts a PostgreSQL server of its own. Exit status 0 if everything passed, or if there is no server to be had.
set -u
python=${PYTHON:-/usr/bin/python3}
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d /tmp/cairn-selftest.XXXXXX)
trap '"$here/pgserver.sh" stop "$scratch/pg" 2>/dev/null; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
passed=0
failed=0
pass() { passed=$((passed + 1)); echo "ok    $1"; }
fail() { failed=$((failed + 1)); echo "FAIL  $1"; }

chmod 711 "$scratch"
if ! why=$("$here/pgserver.sh" start "$scratch/pg" --while $$ 2>&1); then
    echo "skipped: $why"
    exit 0
fi
url() { echo "postgresql:///$1?host=$scratch/pg&user=postgres"; }
psql() { command psql -XAtq -v ON_ERROR_STOP=1 -d "$(url "$1")" "${@:2}"; }
fresh() { psql postgres -c "SET client_min_messages = error" -c "DROP DATABASE IF EXISTS $1" -c "CREATE DATABASE $1 TEMPLATE ${2:-template0}"; }
compare() { "$python" "$here/compare_engines.py" "$@" >"$scratch/out" 2>&1; }

# judge STATUS NAME WORD: the last comparison ended so, and named that.
judge() {
    if [ "$status" -ne "$1" ]; then
        fail "$2: status $status: $(head -c 300 "$scratch/out")"
    elif [ -n "$3" ] && ! grep -qF -- "$3" "$scratch/out"; then
        fail "$2: does not say '$3': $(head -c 300 "$scratch/out")"
    else
        pass "$2"
    fi
}

# ---- two PostgreSQL databases

psql postgres -c "CREATE DATABASE base TEMPLATE template0"
psql base -f "$here/../../docs/demo/sample-postgres.sql"
two() { # STATUS NAME WORD SQL_B [options]
    fresh b base
    psql b -c "SET session_replication_role = replica; $4"
    compare "$(url base)" "$(url b)" "${@:5}"
    status=$?
    judge "$1" "$2" "$3"
}
two 0 "two copies" "equal: 9 tables" "" --exact
two 0 "other order of rows" "" "CREATE TEMP TABLE x AS SELECT * FROM tide ORDER BY level_m; TRUNCATE tide; INSERT INTO tide SELECT * FROM x"
two 0 "tables in schema cairn" "" "CREATE SCHEMA cairn; CREATE TABLE cairn.c(a int)"
two 1 "a missing row" "crew: only in A: row: id='200'" "DELETE FROM crew WHERE id = 200"
two 1 "an extra row" "berth: only in B: row: quay='Z'" "INSERT INTO berth VALUES ('Z', 1, 1)"
two 1 "how often equal rows occur" "tide: " "DELETE FROM tide WHERE ctid = (SELECT max(ctid) FROM tide)"
two 1 "NULL against empty text" "column note: A '', B NULL" "UPDATE berth SET note = NULL WHERE note = '' AND number = 4"
two 1 "empty text against another" "column note: A '', B 'x'" "UPDATE berth SET note = 'x' WHERE note = ''"
two 1 "a trailing blank" "column note" "UPDATE berth SET note = 'crane 0 ' WHERE note = 'crane 0'"
two 1 "one microsecond" "column registered" "UPDATE ship SET registered = registered + '1 microsecond' WHERE id = 5"
two 1 "-0 against 0" "tide: " "UPDATE tide SET level_m = '-0' WHERE level_m = 0"
two 1 "NaN against NULL" "tide: " "UPDATE tide SET level_m = NULL WHERE level_m = 'NaN'"
two 1 "1.10 against 1.1" "column amount" "UPDATE office.invoice SET amount = amount + 0.000000000000000000000000000 WHERE number = 5005"
two 1 "the bounds of an array" "column tags" "UPDATE ship SET tags = '[0:2]={mail,\"NULL\",NULL}' WHERE id = 1"
two 1 "NULL against \"NULL\" in an array" "column tags" "UPDATE ship SET tags = '{mail,NULL,NULL}' WHERE id = 1"
two 1 "blanks in json" "column facts" "UPDATE log_entry SET facts = '{\"wind\": 2, \"wind\": 2.50}' WHERE id = 2"
two 1 "the last byte of a large text" "column body" "UPDATE log_entry SET body = left(body, -1) || 'Z' WHERE id = 5"
two 1 "a column more" "column: only on this side: extra" "ALTER TABLE tide ADD COLUMN extra int"
two 1 "a table only in B" "more: table only in B" "CREATE TABLE more(a int)"
two 1 "exact: a type" "ship: only in" "ALTER TABLE ship ALTER registered TYPE timestamptz(6)" --exact
two 1 "exact: an identity" "operator: only in" "ALTER TABLE operator ALTER id DROP IDENTITY" --exact
two 1 "exact: a default" "operator: only in" "ALTER TABLE operator ALTER country SET DEFAULT 'SE'" --exact
two 1 "exact: a CHECK" "ship: only in A: constraint" "ALTER TABLE ship DROP CONSTRAINT ship_beam_m_check" --exact
two 1 "exact: an index" "log_entry: only in A: index" "DROP INDEX log_by_author" --exact
two 1 "exact: the labels of an enum" "ship: only in" "ALTER TYPE ship_class ADD VALUE 'raft'" --exact
two 1 "exact: a foreign key that is not valid" "cargo: only in" \
    "ALTER TABLE cargo DROP CONSTRAINT cargo_visit_id_fkey; ALTER TABLE cargo ADD FOREIGN KEY (visit_id) REFERENCES visit(id) ON UPDATE CASCADE ON DELETE CASCADE NOT VALID" --exact

# ---- PostgreSQL and SQLite, both ways: one row of each, the same except for what is planted

pg_table="CREATE TABLE t(id int PRIMARY KEY, b bool, i bigint, n numeric, f float8, r float4, x bytea, v text,
    d timestamp, z timestamptz, c char(5), j jsonb, a text[])"
pg_row="INSERT INTO t VALUES (1, true, 9007199254740993, 1.10, '-0', 0.1, '\x00ff', E'a\tb\\\\n', '2024-01-02 03:04:05',
    '2024-01-02 03:04:05.5+02', 'ab', '{\"a\": 2.50}', '{x,\"a\\\\b\"}')"
lite_table="CREATE TABLE T(id INTEGER PRIMARY KEY, b INTEGER, i INTEGER, n TEXT, f, r, x BLOB, v TEXT,
    d TEXT, z TEXT, c TEXT, j TEXT, a TEXT)"
lite_row="INSERT INTO t VALUES (1, 1, 9007199254740993, '1.10', CAST('-0.0' AS REAL), 0.1, x'00ff', 'a' || char(9) || 'b\\n', '2024-01-02 03:04:05',
    '2024-01-02 01:04:05.5+00', 'ab   ', '{\"a\": 2.50}', '{x,\"a\\\\b\"}')"
fresh mixed
mixed() { # DIRECTION STATUS NAME WORD SQL_SQLITE SQL_PG
    rm -f "$scratch/l.db"
    sqlite3 -bail "$scratch/l.db" "$lite_table; $lite_row; UPDATE t SET f = -0.0; $5"
    psql mixed -c "SET client_min_messages = error; DROP TABLE IF EXISTS t; $pg_table; $pg_row; $6"
    if [ "$1" = to ]; then compare "$(url mixed)" "sqlite:$scratch/l.db"; else compare "sqlite:$scratch/l.db" "$(url mixed)"; fi
    status=$?
    judge "$2" "$1 SQLite: $3" "$4"
}
mixed to 0 "equal" "equal: 1 tables, 1 rows" "" ""
mixed from 0 "equal" "" "UPDATE t SET r = 0.5" "UPDATE t SET r = 0.5"
mixed from 0 "numbers by value, instants in any spelling" "" \
    "UPDATE t SET n = 1.1, z = '2024-01-02T03:04:05.500+02:00', d = '2024-01-02T03:04:05', j = '{\"a\":2.5}', r = 1" "UPDATE t SET r = 1"
mixed to 1 "numbers by their text" "column n" "UPDATE t SET n = '1.1'" ""
mixed to 1 "booleans as text" "column b" "UPDATE t SET b = 't'" ""
mixed to 1 "integers as reals" "column i" "UPDATE t SET i = 9007199254740992.0" ""
mixed to 1 "neighbours beyond 2^53" "column i" "UPDATE t SET i = 9007199254740992" ""
mixed from 1 "neighbours beyond 2^53" "column i" "UPDATE t SET i = 9007199254740992" ""
mixed to 1 "0 against -0" "column f" "UPDATE t SET f = 0.0" ""
mixed to 0 "NaN as text" "" "UPDATE t SET f = 'NaN'" "UPDATE t SET f = 'NaN'"
mixed to 1 "NaN as NULL" "column f" "UPDATE t SET f = NULL" "UPDATE t SET f = 'NaN'"
mixed to 0 "Infinity" "" "UPDATE t SET f = 9e999" "UPDATE t SET f = 'Infinity'"
mixed to 1 "bytea as text" "column x" "UPDATE t SET x = CAST(x AS TEXT)" ""
mixed to 1 "a padded text" "column c" "UPDATE t SET c = 'ab'" ""
mixed to 1 "NULL against empty text" "column v" "UPDATE t SET v = NULL" "UPDATE t SET v = ''"
mixed from 1 "NULL against empty text" "column v" "UPDATE t SET v = NULL" "UPDATE t SET v = ''"
mixed from 1 "a text that is no date" "column d" "UPDATE t SET d = 'soon'" ""
mixed from 1 "one microsecond" "column z" "UPDATE t SET z = '2024-01-02 01:04:05.500001'" ""
mixed from 1 "a real that is no float4" "column r" "" ""
mixed from 1 "a missing row" "only in A" "INSERT INTO t(id) VALUES (2)" ""
mixed to 1 "an extra row" "only in B" "INSERT INTO t(id) VALUES (2)" ""
mixed to 1 "an escape of COPY" "column v" "UPDATE t SET v = replace(v, '\\n', char(10))" ""

compare "$(url nowhere)" "sqlite:$scratch/l.db"
status=$?
judge 2 "a database that is not there" "cannot compare"

# ---- the workload

fresh one base
pids=()
for process in 1 2; do
    "$python" "$here/workload_pg.py" "$(url one)" --seed 7 --process $process --transactions 100 --mark --truncate \
        --log "$scratch/log$process" >"$scratch/summary$process" &
    pids+=($!)
done
good=1
for pid in "${pids[@]}"; do wait "$pid" || good=0; done
[ $good -eq 1 ] && pass "workload, 2 processes" || fail "workload: $(cat "$scratch"/summary*)"
compare "$(url base)" "$(url one)"
[ $? -eq 1 ] && pass "workload changes something" || fail "workload changes something"
for process in 1 2; do
    marks=$(psql one -c "SELECT seq FROM workload_marks WHERE process = $process ORDER BY seq")
    [ -n "$marks" ] && [ "$marks" = "$(cat "$scratch/log$process")" ] && pass "log and marks agree" || fail "log and marks agree"
done
pg_dump "$(url one)" >"$scratch/one.sql" && fresh two && psql two -f "$scratch/one.sql" >/dev/null
compare "$(url one)" "$(url two)" --exact
status=$?
judge 0 "dump and restore after the workload" "equal"

# ---- schemas

schemas() { # STATUS NAME WORD SQL_SQLITE SQL_PG: a table by the contract, and what is changed in each
    rm -f "$scratch/s.db"
    sqlite3 -bail "$scratch/s.db" "CREATE TABLE up(id INTEGER PRIMARY KEY); CREATE TABLE T(id INTEGER PRIMARY KEY, a VARCHAR(20) NOT NULL, b DATETIME,
        n DECIMAL(8,2), up INTEGER REFERENCES up(id) ON DELETE CASCADE, UNIQUE (a, b)); CREATE INDEX i ON T(b, a); $4"
    psql mixed -c "SET client_min_messages = error; DROP TABLE IF EXISTS t, up; CREATE TABLE up(id bigint PRIMARY KEY);
        CREATE TABLE t(id bigint PRIMARY KEY, a varchar(20) NOT NULL, b timestamp, n numeric(8,2), up bigint REFERENCES up(id) ON DELETE CASCADE,
        UNIQUE (b, a)); CREATE INDEX ON t(b, a); $5"
    "$python" "$here/compare_schemas.py" "sqlite:$scratch/s.db" "$(url mixed)" >"$scratch/out" 2>&1
    status=$?
    judge "$1" "schema: $2" "$3"
}
schemas 0 "equal" "equal: 2 tables" "" ""
schemas 1 "a type" "column n: type numeric(8,3)" "" "ALTER TABLE t ALTER n TYPE numeric(8,3)"
schemas 1 "NOT NULL" "column a: NOT NULL is missing" "" "ALTER TABLE t ALTER a DROP NOT NULL"
schemas 1 "a column" "column x is missing" "ALTER TABLE t ADD x" ""
schemas 1 "a key" "key (a), expected (id)" "" "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (a)"
schemas 1 "a unique key" "unique key (a, b) is missing" "" "ALTER TABLE t DROP CONSTRAINT t_b_a_key"
schemas 1 "an index" "index (b, a) is missing" "" "DROP INDEX t_b_a_idx"
schemas 1 "an index more" "index (n) is only at the target" "" "CREATE INDEX ON t(n)"
schemas 1 "an action" "on delete SET NULL" "" "ALTER TABLE t DROP CONSTRAINT t_up_fkey, ADD FOREIGN KEY (up) REFERENCES up ON DELETE SET NULL"
schemas 1 "a table" "more: table only in A" "CREATE TABLE more(a)" ""

# ---- planted differences: each is one for compare_engines.py too, and check_compare.py wants exactly these

plants() { # NAME URL_A URL_B
    "$python" "$here/plant.py" "$3" --count 160 --seed 5 >"$scratch/planted" && [ "$(wc -l <"$scratch/planted")" = 160 ] &&
        pass "plant: 160 in $1" || fail "plant: $(wc -l <"$scratch/planted") in $1"
    "$python" - "$scratch/planted" "$scratch/found" "$2" "$3" "$here" <<'PY' && pass "plant: all in $1 are differences" || fail "plant: not all in $1 are differences"
import json, sys
sys.path.insert(0, sys.argv[5])
import compare, compare_engines
planted = [json.loads(line) for line in open(sys.argv[1])]
compare.SHOWN_PER_TABLE = 10**6
a, b = compare_engines.open_side("A", sys.argv[3]), compare_engines.open_side("B", sys.argv[4])
report = compare.compare(a.side, b.side, [], False)[0] if a.engine == "sqlite" else compare_engines.compare_databases(a, b, [], False)[0]
keyless = sum(line["kind"] == "different" and line["keyless"] for line in planted)
with open(sys.argv[2], "w") as found:
    for line in planted:
        kinds = [("missing", line["key"]), ("extra", line["after"])] if "after" in line else [(line["kind"], line["key"])]
        for kind, key in kinds:
            print(json.dumps({"event": "difference", "table": line["table"], "kind": kind, "key": key,
                              "columns": [line["column"]] if "column" in line else []}), file=found)
# Two SQLite files are compared row by row: one that changed counts on both sides.
twice = sum(line["kind"] == "different" for line in planted) if a.engine == "sqlite" else keyless
sys.exit(sum(report.total.values()) != len(planted) + twice)
PY
    "$python" "$here/check_compare.py" "$scratch/planted" "$scratch/found" >"$scratch/out"
    status=$?
    judge 0 "check_compare: all found in $1" "160 planted, 0 not found, 0 found and not planted"
    sed -i 1d "$scratch/found"
    echo '{"event":"difference","table":"by_int","kind":"extra","key":{"id":"-7"}}' >>"$scratch/found"
    "$python" "$here/check_compare.py" "$scratch/planted" "$scratch/found" >"$scratch/out"
    status=$?
    judge 1 "check_compare: one not found, one not planted in $1" "160 planted, 1 not found"
}
fresh sample
"$python" "$here/make_sample.py" "$(url sample)" --rows 60 && "$python" "$here/make_sample.py" "sqlite:$scratch/one.db" --rows 60
compare "sqlite:$scratch/one.db" "$(url sample)"
status=$?
judge 0 "the sample is the same in both engines" "equal: 8 tables, 480 rows"
fresh copy sample
cp "$scratch/one.db" "$scratch/two.db"
plants PostgreSQL "$(url sample)" "$(url copy)"
plants SQLite "$scratch/one.db" "$scratch/two.db"

# ---- schema changes

fresh changes
if "$python" "$here/schema_changes_pg.py" "$(url changes)" --init --seed 4 >"$scratch/changes" 2>&1; then
    pass "$(wc -l <"$scratch/changes") steps of schema_changes_pg.py"
else
    fail "schema_changes_pg.py: $(grep -v '"ok"' "$scratch/changes" | head -c 300)"
fi

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
