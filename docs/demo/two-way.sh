# Both ways, sourced by run.sh: programs write at both ends, and meet in one row.

# both_ways NAME TO: between NAME.db, which is made, and another database. `mine` and `theirs` run SQL in the two.
both_ways() {
  local north="SELECT boats FROM berth WHERE name = 'North'"
  sqlite3 -bail -cmd 'PRAGMA journal_mode = WAL' "$1.db" \
    "CREATE TABLE berth(name TEXT PRIMARY KEY, boats INTEGER); INSERT INTO berth VALUES ('North', 10)" >/dev/null
  command_line "cairn replicate --two-way --from sqlite:$1.db --to ${2%%\?*}"
  follow "$1" "sqlite:$1.db" "$2" "$1" --two-way
  until_says "$1" following
  said "$1" | indent
  source_sql() { theirs "$1"; }
  target_sql() { mine "$1"; }
  change "a program writes at the other end" \
    "INSERT INTO berth(name, boats) VALUES ('South', 4)" "SELECT boats FROM berth WHERE name = 'South'" "4"
  source_sql() { mine "$1"; }
  target_sql() { theirs "$1"; }
  change "and one at this end" \
    "UPDATE berth SET boats = 5 WHERE name = 'South'" "SELECT boats FROM berth WHERE name = 'South'" "5"
  stop "$1"
  printf '\nwhile nothing replicates, both write the same row\n'
  mine "UPDATE berth SET boats = 20 WHERE name = 'North'"
  theirs "UPDATE berth SET boats = 30 WHERE name = 'North'"
  printf '  boats at North: %s here, %s there\n' "$(mine "$north")" "$(theirs "$north")"
  follow "$1" "sqlite:$1.db" "$2" "$1" --two-way
  target_sql() { [ "$(mine "$north")" != "$(theirs "$north")" ] || echo settled; }
  until_target_says '' settled
  printf '  when it goes on, by the rule newest: %s here, %s there\n' "$(mine "$north")" "$(theirs "$north")"
  command_line "cairn conflicts list --database sqlite:$1.db"
  "$cairn" conflicts list --database "sqlite:$1.db" >list.txt || die "conflicts list failed"
  grep -q update_origin_differs list.txt || die "the conflict was not kept"
  indent <list.txt
  stop "$1"
}

title "7. Both ways: if both ends wrote one row, the later version wins, and the other one is kept in the log"
mine() { sqlite3 -bail -cmd '.timeout 5000' north.db "$1"; }
theirs() { sqlite3 -bail -cmd '.timeout 5000' south.db "$1"; }
both_ways north sqlite:south.db
