extension OptionTable {
  static let apply = Section(
    key: "apply", form: .named, help: "brings a trail into a database",
    details: """
      Without a rule for a table, its rows arrive unchanged in a table of the same name. Apply creates that table if \
      it is missing.
      """, example: "pos-to-erp",
    options: [
      Option(
        "trail", .trail, required: true, "the trail that is applied",
        details: """
          That of a capture of this node, `NODE.NAME`, or of another node; then it is applied when a copy of it is \
          there.
          """, example: "\"store-042.pos\""),
      Option("database", .database, required: true, "the database that is written", example: "\"erp\""),
      Option(
        "tables", .patterns, absence: "all tables for a trail of this node; required for a trail of another node",
        since: "0.2.0", "the tables of the target that the trail may write",
        details: """
          An allow-list: what the trail brings for other tables is left out, and `cairn status` names those tables. \
          Patterns match the name at the target, after all rules, without regard to the case of ASCII letters. If \
          several match, the last one counts. Tables of PostgreSQL outside of `public` match with their schema. A \
          pattern without a dot matches only tables of `public`, except `*` and patterns that exclude, which match \
          all. `cairn.*`, `cairn_*`, `pg_*`, `information_schema` and `sqlite_*` are refused, whatever the list says. \
          A table that comes into the list is copied.
          """, example: "[\"sales.*\", \"!sales.secret\"]"),
      Option(
        "fire_triggers", .patterns, absence: "none", since: "0.2.0",
        "triggers of the target that fire while apply writes",
        details: """
          Patterns of names of triggers. In an SQLite target no trigger fires while apply writes, except those that a \
          pattern names. Name the triggers that keep an FTS5 index, which goes stale otherwise. Writes of a trigger \
          fire no further trigger and are not captured. A trigger that writes to its own table must not be named. \
          Build the index once by hand, as `INSERT INTO doc_fts(doc_fts) VALUES ('rebuild')`. In a PostgreSQL target, \
          triggers fire that `ALTER TABLE ... ENABLE ALWAYS TRIGGER` (or `REPLICA`) makes fire. Such a trigger runs \
          with the rights of the role of apply. If its function belongs to a role other than a superuser or that \
          role, the table is refused (`owners-code`). To allow it, name the trigger with its table here: \
          `table.trigger` in schema `public`, else `schema.table.trigger`. A bare name counts only while all triggers \
          that it matches are of tables of one owner. Otherwise the owner of another table could take the name.
          """, example: "[\"doc_fts_*\"]"),
      Option(
        "conflict", .rule, default: "\"newest\"", "how conflicts are resolved if both ends take writes",
        details: """
          `docs/explanation/conflicts.md` has the promise of each rule. One-way there are no conflicts: \
          `local_writes` decides what happens to a row that differs from the source.
          """, example: "\"priority:hq,store-1\""),
      Option(
        "conflicts", .rules, absence: "columns go by the rule of their row",
        "how conflicts in single columns are resolved, in all tables",
        details: "A column with a rule is tracked by itself: two nodes that change different ones do not clash.",
        example: "{ stock = \"delta\" }"),
      Option(
        "tracking", .choice(["row", "column"], later: []), default: "\"row\"", "the unit in which conflicts are found",
        details: """
          `row`: two nodes that change one row clash. `column`: only where they change the same column of it; a table \
          of PostgreSQL takes `REPLICA IDENTITY FULL` for that.
          """, example: "\"column\""),
      Option(
        "deletes", .choice(["newest", "delete", "update"], later: []), default: "\"newest\"",
        "the outcome if one node deletes a row and another one updates it",
        details: "`newest`: the later of both wins. `delete`: it is gone. `update`: it stays, as it was updated.",
        example: "\"delete\""),
      Option(
        "decides", .origin, absence: "each node resolves them by itself",
        "the node that decides conflicts for all others",
        details: """
          It is for the rules `source`, `target`, `insert-only`, `sql:` and `function:`, whose outcome may depend on \
          the node that resolves. Until its decision comes, as a change in its own trail, all nodes hold the latest \
          version. A node, or one of its trails, `NODE.NAME`; the same in the applies of all nodes.
          """, example: "\"hq\""),
      Option(
        "max_clock_skew", .duration(.milliseconds(1) ... .seconds(86_400)), default: "\"1 min\"",
        "how far the clock of the trail's node may be ahead",
        details: """
          Transactions from further ahead wait until this node's clock has reached their time, and the apply reports that. \
          One-way, this holds for transactions of other nodes, if the database is captured. Its capture takes over no \
          clock that is further ahead.
          """,
        example: "\"5 s\""),
      Option(
        "on_error", .choice(["stop", "quarantine"], later: []), default: "\"stop\"",
        "the reaction to a transaction whose rows the target does not take",
        details: """
          `stop`: the apply stops at it, and reports the row and the reason; all other workers continue. `quarantine`: it goes \
          into quarantine, with later ones that touch its rows or depend on them. The apply continues with all \
          others; see `docs/explanation/conflicts.md`.
          """, example: "\"quarantine\""),
      Option(
        "existing", .choice(["keep", "overwrite", "merge"], later: []),
        absence: "the apply stops before it writes, and says which table",
        "the treatment of rows that the target holds before the first copy",
        details: """
          `keep`: they stay, missing ones are added. `overwrite`: the target becomes equal to the source. `merge`: the \
          source's rows win, and rows that only the target has stay.
          """, example: "\"overwrite\""),
      Option(
        "local_writes", .choice(["stop", "allow", "refuse", "undo"], later: []), default: "\"stop\"",
        "the treatment of other programs' writes to the target, if rows come only this way",
        details: """
          `stop`: the apply stops if a row differs from the source. `allow`: the writes stay. If the source writes \
          the same row, the source's row wins, and the other one is in the conflict log. A copy leaves rows that \
          only the target has. `refuse`: triggers refuse every write, except those of apply. `undo`: as `allow`, \
          until the next copy makes the table equal to the source. Tables need a key for `allow` and `undo`; see \
          `docs/explanation/conflicts.md`.
          """, example: "\"allow\""),
      Option(
        "names", .choice(["fold", "keep"], later: []), default: "\"fold\"",
        "names on the way from SQLite to PostgreSQL",
        details: "`fold`: in lower case. `keep`: as they are. Names that then collide are refused.", example: "\"keep\""
      ),
      Option(
        "misfits", .misfits, default: "[\"stop\"]",
        "the treatment of values that their column in PostgreSQL cannot hold",
        details: """
          `stop`: the apply stops and names it. `null`: it becomes NULL, and is counted. `widen`: the column becomes \
          text, where Cairn created the table. The last policy that matches a column counts.
          """, example: "[\"stop\", \"orders.note=null\", \"items.*=widen\"]"),
      Option(
        "ddl", .choice(["follow", "stop", "ignore"], later: []),
        absence: "follow for tables that Cairn created, stop for others",
        "the effect of the source's schema changes here",
        details: """
          `follow`: the table becomes what the source's is. `stop`: it is suspended until the operator has changed it. \
          `ignore`: it stays as it is, and values without a column in it are left out.
          """, example: "\"follow\""),
      Option(
        "replay", .choice(["rows", "auto", "statements"], later: []), default: "\"rows\"",
        "whether statements are executed again instead of applying their rows",
        details: """
          It is for a trail that has the statements of a program. `rows`: never. `auto`: those that wrote a thousand \
          rows or more, where that is proven to do the same. `statements`: all for which it is. UPDATE, upsert and \
          REPLACE also need `local_writes = "refuse"`. The rows that a statement wrote are compared with the source's \
          before it is committed; see `docs/explanation/statements.md`.
          """, example: "\"auto\""),
      Option(
        "audit", .rate(mayBeOff: true), absence: "256KiB/s where nothing else may write to the target, else off",
        "compare both ends again and again, at this rate",
        details: """
          Bytes of rows a second that are read, over both ends. A difference is reported, never repaired; `off`: \
          nothing is compared. For a trail of another node, that node is asked for digests of its rows. If it is left \
          out, there is no audit if the conf lets rows differ. That is the case if both ends write, with \
          `local_writes = "allow"`, with `existing` other than `overwrite`, with `misfits`, or with a rule that keeps \
          rows.
          """,
        example: "\"10MiB/s\""),
    ])

  static let table = Section(
    key: "table", form: .list(of: "apply"), help: "a rule for the rows of one table on their way",
    details: """
      Expressions are in SQLite's language, over values with the affinity of the source's type. They see the columns \
      of one row, and have no functions that depend on time or chance. A column that is named plainly passes \
      unchanged, exact decimals too. `docs/reference/mapping.md` has all cases.
      """,
    options: [
      Option(
        "from", .table(isPattern: true), required: true, "the table at the source, or a pattern of tables",
        details: """
          Matched without regard to the case of ASCII letters; tables of PostgreSQL outside of `public` with their \
          schema. For a table that has several, a rule with its name counts before those with patterns; among these, \
          the first counts.
          """,
        example: "\"orders\""),
      Option(
        "to", .table(isPattern: false), absence: "the name that it would have without a rule",
        "the table at the target",
        example: "\"sales.orders\""),
      Option(
        "where", .sql, absence: "all rows", "the rows that the target gets",
        details: """
          A row that no longer fulfils it is deleted at the target, one that begins to is inserted. `cairn check` says \
          where that takes `REPLICA IDENTITY FULL` of a table in PostgreSQL.
          """, example: "\"total > 0\""),
      Option(
        "columns", .columns, absence: "all columns, as they are",
        "the target's columns, and where their values come from",
        details: """
          In the order in which a table that is created has them; `"*" = "*"` means all columns that are not named \
          otherwise. A value is an expression, or `{ expr = "...", type = "numeric(10,2)" }` where the column of a \
          table that is created is to have that type. The columns of the key must be among them. A constant \
          distinguishes the rows of this trail from rows of other trails in the same table. It becomes part of the \
          key; with `share = false` it is a plain column.
          """,
        example: "{ id = \"id\", customer = \"customer_id\", amount = \"round(total, 2)\", store = \"'042'\" }"),
      Option(
        "delete", .delete, default: "\"apply\"", "the effect of a delete at the source",
        details: """
          `apply`: the row is deleted. `keep`: it stays. `mark:COLUMN`: it stays, and COLUMN gets the time of the \
          commit.
          """, example: "\"mark:deleted_at\""),
      Option(
        "mode", .choice(["mirror", "history"], later: []), default: "\"mirror\"",
        "whether the target mirrors the source",
        details: """
          `history`: the target gets a row for each change, with the columns of the row and `cairn_operation`, \
          `cairn_committed_at`, `cairn_origin`, `cairn_position`.
          """, example: "\"history\""),
      Option(
        "local_writes", .choice(["stop", "allow", "refuse", "undo"], later: []), absence: "as the apply has it",
        "the treatment of other programs' writes to this table at the target", example: "\"undo\""),
      Option(
        "conflict", .rule, absence: "as the apply has it", "how conflicts in this table are resolved",
        example: "\"priority:hq\""),
      Option(
        "conflicts", .rules, absence: "as the apply has it", "how conflicts in single columns are resolved",
        details: "By the names that columns have at the target.",
        example: "{ stock = \"delta\", note = \"merge-text\" }"),
      Option(
        "tracking", .choice(["row", "column"], later: []), absence: "as the apply has it",
        "the unit in which conflicts in this table are found", example: "\"column\""),
      Option(
        "deletes", .choice(["newest", "delete", "update"], later: []), absence: "as the apply has it",
        "the outcome if one node deletes a row of this table and another one updates it", example: "\"update\""),
      Option(
        "decides", .origin, absence: "as the apply has it",
        "the node that decides conflicts in this table for all others",
        example: "\"hq\""),
    ])
}
