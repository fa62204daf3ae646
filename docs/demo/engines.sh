# The second half of the demo, sourced by run.sh: SQLite to PostgreSQL, PostgreSQL to SQLite, and on to a second
# PostgreSQL. On a server of its own, with its socket in the demo's folder; where there is none, it says why.

title "8. PostgreSQL: a server of the demo's own"
if why=$("$tools/pgserver.sh" start "$folder/pg" --while $$ 2>&1); then
  url() { echo "postgresql:///$1?host=$folder/pg&user=postgres"; }
  ask() { psql -XAtq -v ON_ERROR_STOP=1 -d "$(url "$1")" -c "$2"; }
  ask postgres "SELECT split_part(version(), ' (', 1)" | indent
  for name in office port second shared; do ask postgres "CREATE DATABASE $name TEMPLATE template0"; done
else
  printf '  left out: %s\n' "$why"
  return 0
fi
judge() { "$tools/compare_engines.py" "$@" | indent || die "the ends differ"; }

title "9. SQLite to PostgreSQL: declared types become real ones"
sqlite3 -bail harbour.db "UPDATE operator SET since = '' WHERE name = 'Lighter & Tug Co'"
echo "SQLite keeps anything in a DATE column; PostgreSQL does not, and nothing is altered in silence:"
command_line "cairn replicate --from sqlite:harbour.db --to postgresql:///office --once"
"$cairn" replicate --from sqlite:harbour.db --to "$(url office)" --state office --once >once.log 2>&1 &&
  die "an empty text became a date"
grep -q value-misfit once.log || die "the empty text was not named"
grep -A 1 value-misfit once.log | indent
echo "The source is mended, and everything is copied again:"
sqlite3 -bail harbour.db "UPDATE operator SET since = NULL WHERE since = ''"
command_line "cairn replicate --from sqlite:harbour.db --to postgresql:///office --existing overwrite"
follow to-office sqlite:harbour.db "$(url office)" office --existing overwrite
until_says to-office following
source_sql() { sqlite3 -bail -cmd '.timeout 5000' harbour.db "PRAGMA foreign_keys = ON; PRAGMA synchronous = NORMAL; $1"; }
target_sql() { ask office "$1"; }
command_line "psql office -c '\d visit'"
psql -X -d "$(url office)" -c '\d visit' | sed -n '2,10p' | indent
change "a cascade" \
  "DELETE FROM ship WHERE id = 10" \
  "SELECT count(*) FROM visit WHERE ship_id = 10" "0"
change "a number, a truth and an instant" \
  "UPDATE berth SET depth_m = 7.5, power = 1 WHERE quay = 'Mole' AND number = 2; UPDATE visit SET departed = '2030-01-02 03:04:05' WHERE id = 420" \
  "SELECT depth_m, power, (SELECT departed FROM visit WHERE id = 420) FROM berth WHERE quay = 'Mole' AND number = 2" \
  "7.5|t|2030-01-02 03:04:05"

title "10. PostgreSQL to SQLite"
psql -XAtq -v ON_ERROR_STOP=1 -d "$(url port)" -f "$here/sample-postgres.sql"
# Without the words of \restrict, which are new each time.
dump() { pg_dump -s -d "$(url "$1")" | grep -v '^\\'; }
dump port >port-before.sql
command_line "cairn replicate --from postgresql:///port --to sqlite:port.db"
follow to-sqlite "$(url port)" sqlite:port.db port
until_says to-sqlite following
source_sql() { ask port "$1"; }
target_sql() { sqlite3 -bail -readonly -cmd '.timeout 5000' port.db "$1"; }
change "types that SQLite does not have" \
  "UPDATE ship SET tags = '[0:1]={NULL,\"NULL\"}', registered = '0044-03-15 12:00+00 BC', details = '{\"draught\": 2.50}' WHERE id = 7" \
  "SELECT tags, registered, details FROM ship WHERE id = 7" \
  '[0:1]={NULL,"NULL"}|0044-03-15 12:00:00+00 BC|{"draught": 2.50}'
change "a number that SQLite would bend, in a table of another schema" \
  "UPDATE office.invoice SET amount = 12345678901234567890.10 WHERE number = 5000" \
  "SELECT amount FROM office_invoice WHERE number = 5000" "12345678901234567890.10"
change "a row whose large text stays where it is" \
  "UPDATE log_entry SET author = 'Watch' WHERE id = 5" \
  "SELECT author, length(body) FROM log_entry WHERE id = 5" "Watch|13199"

title "11. kill -9 while a program writes, and the server crashes as well; then it goes on"
waves="SELECT count(*) FROM log_entry WHERE author = 'storm'"
storm() { # FIRST LAST
  for ((i = $1; i <= $2; i++)); do
    echo "BEGIN; INSERT INTO log_entry(author, body) VALUES ('storm', 'wave $i');" \
      "UPDATE ship SET active = NOT active, papers = decode('$(printf %08x "$i")', 'hex') WHERE id = $i % 100 + 1; COMMIT;"
  done >storm.sql
  psql -XAtq -v ON_ERROR_STOP=1 -d "$(url port)" -f storm.sql
}
storm 1 1500 &
program=$!
while [ "$(target_sql "$waves")" -lt 300 ] && kill -0 "$program" 2>/dev/null; do :; done
crash to-sqlite
printf '  waves at the target: %s\n' "$(target_sql "$waves")"
wait "$program" || die "the program met an error"
printf '  at the source, when the program is done: %s\n' "$(source_sql "$waves")"
follow to-sqlite "$(url port)" sqlite:port.db port
until_target_says "$waves" 1500
command_line "pg_ctl restart -m immediate"
"$tools/pgserver.sh" restart "$folder/pg" || die "the server does not start again"
storm 1501 3000
until_target_says "$waves" 3000
grep -E 'lost|again' to-sqlite.log to-office.log | sed -e 's/^[^:]*:cairn: //' -e 's/ (.*)//' | sort -u | indent
for name in to-office to-sqlite; do stop "$name"; done
command_line "compare_engines.py sqlite:harbour.db postgresql:///office      (knows nothing of cairn)"
judge sqlite:harbour.db "$(url office)"
command_line "compare_engines.py postgresql:///port sqlite:port.db"
judge "$(url port)" sqlite:port.db

title "12. And on to a second PostgreSQL, where everything is what it was in the first"
command_line "cairn replicate --from sqlite:port.db --to postgresql:///second"
follow to-second sqlite:port.db "$(url second)" second
until_says to-second following
command_line "compare_engines.py --exact postgresql:///port postgresql:///second"
judge --exact "$(url port)" "$(url second)"
source_sql() { sqlite3 -bail -cmd '.timeout 5000' port.db "$1"; }
target_sql() { ask second "$1"; }
change "what a program writes into the SQLite file goes on as well, in the types of the first" \
  "UPDATE ship SET tags = '{north,south}', length_m = '99.10' WHERE id = 8" \
  "SELECT tags[2], length_m FROM ship WHERE id = 8" "south|99.10"
follow to-sqlite "$(url port)" sqlite:port.db port
source_sql() { ask port "$1"; }
change "and what comes to the file from the first PostgreSQL goes on to the second" \
  "UPDATE ship SET tags = '{east}', length_m = '12.30' WHERE id = 9" \
  "SELECT tags[1], length_m FROM ship WHERE id = 9" "east|12.30"
for name in to-second to-sqlite; do stop "$name"; done

title "13. A file and a server, both ways"
mine() { sqlite3 -bail -cmd '.timeout 5000' east.db "$1"; }
theirs() { ask shared "$1"; }
both_ways east "$(url shared)"

title "14. Leave: the source's schema is what it was, and no slot is left"
for name in port second office shared; do
  command_line "cairn detach postgresql:///$name"
  "$cairn" detach "$(url "$name")" | indent
done
for file in port harbour east; do "$cairn" detach "sqlite:$file.db" | indent; done
dump port >port-after.sql
cmp port-before.sql port-after.sql || die "detach left something at the source"
[ -z "$(ask postgres 'SELECT slot_name FROM pg_replication_slots')" ] || die "a slot is left"
[ -z "$(ask postgres 'SELECT roname FROM pg_replication_origin')" ] || die "an origin is left"
for name in second office shared; do
  [ -z "$(ask "$name" "SELECT 1 FROM pg_namespace WHERE nspname = 'cairn'")" ] || die "schema cairn is left in $name"
done
printf '  pg_dump -s before and after: the same %d bytes\n' "$(wc -c <port-after.sql)"
