extension OptionTable {
  static let node = Section(
    key: "node", form: .single, isRequired: true, help: "this installation of Cairn",
    options: [
      Option(
        "name", .name, required: true, "the origin of every transaction that starts here",
        details: """
          It is part of the name of each trail, and stays with the rows wherever they go. Never give the name of one \
          machine to another, not even when the first is gone.
          """, example: "\"store-042\""),
      Option(
        "state", .path(bytesMax: 1024), default: "\"/var/lib/cairn\"", "folder with the lock and the trails",
        details: """
          One daemon works in it at a time. It needs the space that the trails take, and a file system that keeps what \
          was synced.
          """, example: "\"/srv/cairn\""),
    ])

  static let database = Section(
    key: "database", form: .named, help: "a database, by a name that captures and applies use",
    details: """
      A conf file never holds a password. For PostgreSQL the password is the content of the file `credentials/NAME` \
      beside `cairn.toml`. The service gets it as a systemd credential, `database_NAME` or `database.NAME` in \
      `$CREDENTIALS_DIRECTORY`. Otherwise libpq looks for it in a passfile (`?passfile=`) or a service file \
      (`?service=`).
      """, example: "pos", more: ["[database.erp]", "url = \"postgresql://cairn@db.example/erp\""],
    options: [
      Option(
        "url", .url, required: true, "the address of the database",
        details: """
          `sqlite:///srv/pos/pos.db`, with an absolute path, or any libpq URI: `postgresql://cairn@db.example/erp`. \
          For a server on another machine add `?sslmode=verify-full&sslrootcert=FILE`: without it libpq takes any \
          server, and `cairn check` and the log warn of it.
          """, example: "\"sqlite:///srv/pos/pos.db\""),
      Option(
        "keys", .choice(["shared"], later: []),
        absence:
          "tables that generate keys are refused if both ends write to them, until their keys are separated",
        "whether nodes may generate the same keys for different rows",
        details: """
          AUTOINCREMENT, INTEGER PRIMARY KEY, serial and identity columns give the same number at two nodes. `cairn \
          identity` separates them. `shared`: nothing is separated, as applications set the keys, such as \
          UUIDs, or each table is written at one node only.
          """, example: "\"shared\""),
      Option(
        "moved_keys", .choice(["accept"], later: []),
        absence:
          "SQLite tables with a foreign key to themselves and ON UPDATE CASCADE are refused if both ends write to them",
        "whether both ends may write to such tables",
        details: """
          A row that refers to itself may get another key while another node refers to the old key. Its reference may \
          then keep the old key there. `accept`: applications change no keys of such rows.
          """, example: "\"accept\""),
    ])

  static let capture = Section(
    key: "capture", form: .named, help: "takes the changes of a database into the trail NODE.NAME",
    details: "A database is captured once; what has several targets is applied several times.", example: "pos",
    options: [
      Option("database", .database, required: true, "the database that is captured", example: "\"pos\""),
      Option(
        "tables", .patterns, default: "[\"*\"]", "which tables are captured",
        details: """
          If several patterns match a table, the last one counts. Names match without regard to the case of ASCII \
          letters; a pattern that excludes a table matches without regard to any case. Name tables of PostgreSQL \
          outside of `public` with their schema.
          """, example: "[\"*\", \"!tmp_*\"]"),
      Option(
        "statements", .flag, default: "true", "keep executed statements if the application gives them",
        details: """
          Only applications that write through the embedded API give their statements. Triggers and PostgreSQL's log do \
          not know them, so the option changes nothing for other programs.
          """,
        example: "false"),
      Option(
        "copy", .flag, default: "true", "send the rows that are there when the capture begins",
        details: """
          Use `false` if the rows arrive in another way, for example if two nodes write and the rows of this node came \
          from the other. Changes are captured from the first moment on. It counts at the first start only; tables that come \
          later are copied, except those that an apply brings.
          """, example: "false"),
      Option(
        "applied", .choice(["include", "skip"], later: []),
        absence: "they are included if no way leads back to their source", since: "0.2.0",
        "whether rows that applies write to this database go into its trail too",
        details: """
          `include` makes a chain: rows from A that apply writes to this database B are sent on to C, with their \
          origin. A row is never sent back to its origin. Rows of a two-way apply are never included: \
          the other nodes get them by the trails of their own nodes. `include` also says that a trail from another \
          node does not go back there, although a peer may have this one. `skip`: only rows that applications write here.
          """, example: "\"include\""),
      Option(
        "journal_rows", .count(1000...1_000_000_000), default: "5000000",
        "SQLite: rows that the journal in the database may hold",
        details: """
          If the daemon is away for so long that more rows wait, the journal drops the oldest. All tables are copied \
          again afterwards. PostgreSQL has no journal; `max_slot_wal_keep_size` of the server is its cap.
          """, example: "1000000"),
      Option(
        "heartbeat", .duration(.milliseconds(100) ... .seconds(86_400)), default: "\"10 s\"",
        "time between two signs of life while nothing else moves",
        details: """
          In PostgreSQL it is a small transaction, without which the slot of an idle database would keep the log of \
          all others on the server. SQLite needs none: what is written there is seen at once, and nothing waits for \
          an idle file.
          """, example: "\"1 min\""),
      Option(
        "purge", .duration(.milliseconds(100) ... .seconds(86_400)), default: "\"10 s\"",
        "time between two searches for segments of the trail that every apply has passed",
        example: "\"1 min\""),
    ])
}
