#!/bin/bash
# What 'make demo' shows: a copy, live changes, kill -9, the trail, and a detach that removes everything; then both ways, with
# a conflict (two-way.sh), and the same between SQLite and PostgreSQL (engines.sh).
#
#     docs/demo/run.sh PATH-OF-CAIRN
#
# Everything happens in a temporary folder, which is removed at the end. Exits 0 only if all is as it says.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/stage.sh"

source_sql() { sqlite3 -bail -cmd '.timeout 5000' harbour.db "PRAGMA foreign_keys = ON; PRAGMA synchronous = NORMAL; $1"; }
target_sql() { sqlite3 -bail -readonly -cmd '.timeout 5000' copy.db "$1"; }
start() { follow cairn sqlite:harbour.db sqlite:copy.db state; }

until_caught_up() { until_target_says "SELECT count(*) FROM log_entry" "$(source_sql 'SELECT count(*) FROM log_entry')"; }

title "1. A source with rows in it"
{ echo 'PRAGMA journal_mode = WAL;'; cat "$here/sample.sql"; } | sqlite3 -bail harbour.db >/dev/null
cp harbour.db untouched.db
command_line "sqlite3 harbour.db .tables"
sqlite3 harbour.db .tables | indent

title "2. Copy it, and follow it"
command_line "cairn replicate --from sqlite:harbour.db --to sqlite:copy.db"
start
until_says cairn following
said cairn | indent
"$compare" harbour.db copy.db | indent || die "the copy differs"

title "3. Changes, as the sqlite3 shell makes them"
change "an insert" \
  "INSERT INTO crew(badge, ship_id, name, rank) VALUES ('B-9001', 7, 'Inés', 'pilot')" \
  "SELECT * FROM crew WHERE badge = 'B-9001'" "241|B-9001|7||Inés|pilot|"
change "an update" \
  "UPDATE ship SET name = 'Stella Maris' WHERE id = 7" \
  "SELECT id, name, label FROM ship WHERE id = 7" "7|Stella Maris|H78007 Stella Maris"
change "a REPLACE that takes the name of operator 1, whose row SQLite then deletes without firing a delete trigger" \
  "REPLACE INTO operator(id, name, country) VALUES (50, 'nordkyst ferger', 'SE')" \
  "SELECT * FROM operator WHERE id IN (1, 50)" "50|nordkyst ferger|SE|"
change "a delete that cascades to visits, cargo and crew" \
  "DELETE FROM ship WHERE id = 9" \
  "SELECT (SELECT count(*) FROM ship), (SELECT count(*) FROM visit), (SELECT count(*) FROM cargo), (SELECT count(*) FROM crew)" \
  "$(sqlite3 untouched.db "
    SELECT (SELECT count(*) FROM ship) - 1, (SELECT count(*) FROM visit WHERE ship_id <> 9),
      (SELECT count(*) FROM cargo WHERE visit_id NOT IN (SELECT id FROM visit WHERE ship_id = 9)),
      (SELECT count(*) FROM crew WHERE ship_id IS NOT 9) + 1")"
change "a transaction that is rolled back, and one that is not" \
  "BEGIN; DELETE FROM tariff; ROLLBACK; INSERT INTO log_entry(author, body) VALUES ('Watch', 'tariffs stay')" \
  "SELECT (SELECT count(*) FROM tariff), body FROM log_entry ORDER BY id DESC LIMIT 1" "30|tariffs stay"
change "a new column" \
  "ALTER TABLE ship ADD COLUMN home_port TEXT DEFAULT 'Bergen'; UPDATE ship SET home_port = 'Tromsø' WHERE id = 7" \
  "SELECT group_concat(name || ' of ' || home_port, ', ') FROM (SELECT * FROM ship WHERE id IN (7, 8) ORDER BY id)" \
  "Stella Maris of Tromsø, Havørn of Bergen"

title "4. kill -9 while a program runs 10,000 transactions; the program goes on"
for ((i = 1; i <= 10000; i++)); do
  echo "BEGIN; INSERT INTO log_entry(author, body) VALUES ('storm', 'wave $i');" \
    "UPDATE tide SET level_m = $i WHERE rowid = $i % 200 + 1; COMMIT;"
done >storm.sql
waves="SELECT count(*) FROM log_entry WHERE author = 'storm'"
sqlite3 -bail -cmd '.timeout 5000' -cmd 'PRAGMA synchronous = NORMAL' harbour.db <storm.sql &
program=$!
while [ "$(target_sql "$waves")" -lt 1000 ] && kill -0 "$program" 2>/dev/null; do :; done
crash cairn
printf '  waves at the target: %s\n' "$(target_sql "$waves")"
printf '  at the source:       %s\n' "$(source_sql "$waves")"
wait "$program" || die "the program met an error"
printf '  and when it is done: %s\n' "$(source_sql "$waves")"
command_line "cairn replicate --from sqlite:harbour.db --to sqlite:copy.db"
began=$(microseconds)
start
until_caught_up
printf '  caught up after %d ms\n' "$(milliseconds_since "$began")"
until_says cairn following
stop cairn
said cairn | indent
command_line "compare.py harbour.db copy.db      (knows nothing of cairn)"
"$compare" harbour.db copy.db | indent || die "something was lost or doubled"

title "5. The trail, which holds all of it"
command_line "cairn trail list --state state"
"$cairn" trail list --state state >list.txt || die "trail list failed"
grep -q 'local\.harbour' list.txt || die "the trail is not listed"
indent <list.txt
command_line "cairn trail show local.harbour --state state | tail -n 8"
"$cairn" trail show local.harbour --state state >show.txt || die "trail show failed"
grep -q 'wave 10000' show.txt || die "the last change is not in the trail"
tail -n 8 show.txt | indent
command_line "cairn trail verify local.harbour --state state"
"$cairn" trail verify local.harbour --state state >verify.txt || die "the trail is damaged"
indent <verify.txt

title "6. Leave: the schema is what it would be had cairn never been there"
command_line "cairn detach sqlite:harbour.db; cairn detach sqlite:copy.db"
"$cairn" detach sqlite:harbour.db | indent
"$cairn" detach sqlite:copy.db | indent
sqlite3 untouched.db "ALTER TABLE ship ADD COLUMN home_port TEXT DEFAULT 'Bergen'"
sqlite3 untouched.db .schema >before.txt
sqlite3 harbour.db .schema >after.txt
cmp before.txt after.txt || die "detach left something at the source"
sqlite3 copy.db .schema | grep -q cairn_ && die "detach left something at the target"
"$compare" harbour.db copy.db >/dev/null || die "detach touched rows"
printf '  .schema before and after: the same %d bytes\n' "$(wc -c <after.txt)"

. "$here/two-way.sh"
. "$here/engines.sh"

printf '\nAll was as it says, in %d s.\n' "$SECONDS"
