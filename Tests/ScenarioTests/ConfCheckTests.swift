import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// `cairn check --config` and `cairn config show`, as programs.
  @Suite struct ConfCheckTests {
    private func write(_ bench: Bench, _ path: String, _ text: String, mode: Int = 0o644) throws {
      let url = URL(fileURLWithPath: bench.path(path))
      try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
      try Data(text.utf8).write(to: url)
      try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: url.path)
    }

    private func check(_ bench: Bench, _ more: [String] = []) throws -> Outcome {
      try bench.run(Bench.cairn, ["check", "--config", "conf"] + more)
    }

    /// The lines of errors, without hints and notices.
    private func errors(_ outcome: Outcome) -> [String] {
      outcome.errors.split(separator: "\n").map(String.init).filter { $0.hasPrefix("cairn: error ") }
    }

    private func conf(_ bench: Bench, _ more: String = "") -> String {
      """
      [node]
      name = "hq"
      state = "\(bench.path("state"))"
      [database.shop]
      url = "sqlite://\(bench.path("shop.db"))"
      [database.copy]
      url = "sqlite://\(bench.path("copy.db"))"
      [capture.shop]
      database = "shop"
      [apply.copy]
      trail = "hq.shop"
      database = "copy"

      """ + more
    }

    @Test func `a conf with errors lists them all and opens no database`() throws {
      let bench = try Bench()
      try write(bench, "conf/cairn.toml", conf(bench).replacingOccurrences(of: "[capture.shop]", with: "[captre.shop]"))
      try write(bench, "conf/conf.d/10.toml", "[limits]\ndisk = 20 GiB\n")
      let outcome = try check(bench)
      #expect(outcome.status == 78 && outcome.output.isEmpty)
      #expect(
        errors(outcome) == [
          "cairn: error [conf-unknown]: conf/cairn.toml:8:2: there is no section [captre]",
          "cairn: error [conf-syntax]: conf/conf.d/10.toml:2:11: this is not TOML: expected a comment or whitespace, saw 'G'",
        ])
      #expect(outcome.errors.contains("hint: did you mean [capture.NAME]?"))
      let missing = try bench.run(Bench.cairn, ["check", "--config", "nowhere"])
      #expect(missing.status == 78 && missing.errors.contains("conf-missing"))
    }

    @Test func `two trails come into one table only if constants keep them apart`() throws {
      let bench = try Bench()
      for name in ["shop.db", "till.db"] {
        _ = try bench.sqlite(name, "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT)")
      }
      func both(_ one: String, _ two: String) -> String {
        """
        [[apply.copy.table]]
        from = "item"
        columns = { \(one)"*" = "*" }
        [database.till]
        url = "sqlite://\(bench.path("till.db"))"
        [capture.till]
        database = "till"
        [apply.till]
        trail = "hq.till"
        database = "copy"
        [[apply.till.table]]
        from = "item"
        columns = { \(two)"*" = "*" }

        """
      }
      let alike = "store = \"'a'\", "
      for (one, two) in [("", ""), (alike, ""), (alike, alike), (alike, "till = \"'b'\", ")] {
        try write(bench, "conf/cairn.toml", conf(bench, both(one, two)))
        let outcome = try check(bench)
        #expect(outcome.status != 0 && outcome.errors.contains("[name-collision]: apply till: table item"))
        #expect(outcome.errors.contains("hq.shop") && outcome.errors.contains("hq.till"))
      }
      try write(bench, "conf/cairn.toml", conf(bench, both(alike, "store = \"'b'\", ")))
      #expect(try check(bench).status == 0)
      // Another replication has brought its rows there.
      _ = try bench.sqlite("old.db", "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT)")
      func replicate(_ source: String, _ state: String) throws -> Outcome {
        try bench.run(
          Bench.cairn,
          ["replicate", "--from", "sqlite:\(source)", "--to", "sqlite:\(bench.path("copy.db"))", "--once"]
            + ["--state", state])
      }
      #expect(try replicate(bench.path("old.db"), bench.path("other")).status == 0)
      let late = try replicate(bench.path("till.db"), bench.path("third"))
      #expect(late.status != 0 && late.errors.contains("[name-collision]") && late.errors.contains("local.old"))
      let taken = try check(bench)
      #expect(taken.errors.contains("apply copy: table item") && taken.errors.contains("local.old"), "\(taken.errors)")
    }

    @Test func `two trails may each come into one of two tables whose names look alike`() throws {
      let bench = try Bench()
      for (name, table) in [("shop.db", "caf\u{e9}"), ("till.db", "cafe\u{301}")] {
        _ = try bench.sqlite(name, "CREATE TABLE \"\(table)\"(id INTEGER PRIMARY KEY, name TEXT)")
      }
      let more = """
        [database.till]
        url = "sqlite://\(bench.path("till.db"))"
        [capture.till]
        database = "till"
        [apply.till]
        trail = "hq.till"
        database = "copy"

        """
      try write(bench, "conf/cairn.toml", conf(bench, more))
      let outcome = try check(bench)
      #expect(outcome.status == 0, "\(outcome.errors)")
    }

    @Test func `a table that is left out by a name with a slip is an error, as it would be sent`() throws {
      let bench = try Bench()
      _ = try bench.sqlite("shop.db", "CREATE TABLE item(id INTEGER PRIMARY KEY); CREATE TABLE secret(v)")
      let capture = "[capture.shop]\n"
      try write(
        bench, "conf/cairn.toml",
        conf(bench).replacingOccurrences(of: capture, with: capture + "tables = [\"*\", \"!secrt\"]\n"))
      let refused = try check(bench)
      #expect(refused.status != 0 && refused.errors.contains("[table-missing]"), "\(refused)")
      #expect(refused.errors.contains("did you mean !secret?"), "\(refused)")
      let once = try bench.run(
        Bench.cairn,
        ["replicate", "--from", "sqlite:shop.db", "--to", "sqlite:copy.db", "--once", "--tables", "*,!secrt"])
      #expect(once.status != 0 && once.errors.contains("did you mean !secret?"), "\(once)")
    }

    @Test func `a table that is named with a slip is an error with the nearest name`() throws {
      let bench = try Bench()
      _ = try bench.sqlite(
        "shop.db", "CREATE TABLE item(id INTEGER PRIMARY KEY); CREATE TABLE sale(id INTEGER PRIMARY KEY)")
      let ends = ["--from", "sqlite:shop.db", "--to", "sqlite:copy.db"]
      for (tables, nearest) in [(["itme"], "item"), (["item", "slae"], "sale")] {
        let capture = "[capture.shop]\n"
        let text = conf(bench).replacingOccurrences(of: capture, with: capture + "tables = \(tables)\n")
        try write(bench, "conf/cairn.toml", text)
        let list = ["--tables", tables.joined(separator: ",")]
        for outcome in [
          try check(bench), try bench.run(Bench.cairn, ["check"] + ends + list),
          try bench.run(Bench.cairn, ["replicate", "--once"] + ends + list),
        ] {
          #expect(outcome.status == 65 && errors(outcome).count == 1, "\(outcome)")
          #expect(outcome.errors.contains("[table-missing]"), "\(outcome)")
          #expect(outcome.errors.contains("did you mean \(nearest)?"), "\(outcome)")
        }
      }
      #expect(try bench.sqlite("shop.db", "SELECT count(*) FROM sqlite_master WHERE name LIKE 'cairn%'") == "0\n")
    }

    @Test func `a slip is an error also in databases that write each other, a table of the other one is not`() throws {
      let bench = try Bench()
      _ = try bench.sqlite("shop.db", "CREATE TABLE item(id INTEGER PRIMARY KEY)")
      _ = try bench.sqlite(
        "copy.db", "CREATE TABLE item(id INTEGER PRIMARY KEY); CREATE TABLE sale(id INTEGER PRIMARY KEY)")
      let more = """
        [capture.copy]
        database = "copy"
        [apply.shop]
        trail = "hq.copy"
        database = "shop"

        """
      let capture = "[capture.shop]\n"
      for (tables, nearest) in [("\"item\", \"sale\"", nil), ("\"itme\", \"sale\"", "item")] {
        let text = conf(bench, more).replacingOccurrences(of: capture, with: capture + "tables = [\(tables)]\n")
        try write(bench, "conf/cairn.toml", text)
        let outcome = try check(bench)
        #expect(outcome.errors.contains("[table-missing]") == (nearest != nil), "\(outcome)")
        if let nearest { #expect(outcome.errors.contains("did you mean \(nearest)?"), "\(outcome)") }
      }
      for (from, isSlip) in [("sale", false), ("itme", true)] {
        let rule = "[[apply.copy.table]]\nfrom = \"\(from)\"\nwhere = \"id > 1\"\n"
        try write(bench, "conf/cairn.toml", conf(bench, more) + rule)
        let outcome = try check(bench)
        #expect(outcome.errors.contains("[table-missing]") == isSlip, "\(outcome)")
      }
    }

    @Test func `a trigger that would keep an index of the target is named, until the conf lets it fire`() throws {
      let bench = try Bench()
      let table = "CREATE TABLE doc(id INTEGER PRIMARY KEY, body TEXT);"
      _ = try bench.sqlite("shop.db", table)
      _ = try bench.sqlite(
        "copy.db",
        """
        \(table) CREATE VIRTUAL TABLE doc_fts USING fts5(body, content = 'doc', content_rowid = 'id');
        CREATE TRIGGER doc_ai AFTER INSERT ON doc BEGIN INSERT INTO doc_fts(rowid, body) VALUES (new.id, new.body); END;
        """)
      let line = """
        trigger doc_ai of table doc does not fire while apply writes, so doc_fts goes stale: \
        let it fire with fire_triggers = ["doc_ai"] in [apply.NAME], or rebuild what it keeps
        """
      try write(bench, "conf/cairn.toml", conf(bench))
      let ends = ["--from", "sqlite:shop.db", "--to", "sqlite:copy.db"]
      for outcome in [try check(bench), try bench.run(Bench.cairn, ["check"] + ends)] {
        #expect(outcome.status == 0 && outcome.output.components(separatedBy: line).count == 2, "\(outcome)")
      }
      try write(bench, "conf/cairn.toml", conf(bench, "fire_triggers = [\"doc_ai\"]\n"))
      let fired = try check(bench)
      #expect(fired.status == 0 && !fired.output.contains("goes stale"), "\(fired)")
    }

    @Test func `the daemon begins no capture that would send such a table, and begins when the name is right`() throws {
      let node = try DaemonBench()
      _ = try node.bench.sqlite(
        "source.db",
        "CREATE TABLE item(id INTEGER PRIMARY KEY); CREATE TABLE secret(v INTEGER PRIMARY KEY); INSERT INTO secret VALUES (1)"
      )
      let list = { (name: String) in
        node.pair().replacingOccurrences(of: "[capture.pos]\n", with: "[capture.pos]\ntables = [\"*\", \"\(name)\"]\n")
      }
      try node.write(list("!secrt"))
      try node.start()
      #expect(node.wait(for: "capture.pos", "failed", code: "table-missing"), "\(node.log)")
      #expect(node.log.contains("did you mean !secret?"), "\(node.log)")
      let own = "SELECT count(*) FROM sqlite_master WHERE name LIKE 'cairn%'"
      #expect(try node.bench.sqlite("source.db", own) == "0\n")
      try node.write(list("!secret"))
      node.daemon?.signal(SIGHUP)
      #expect(try node.bench.waitForTarget("SELECT count(*) FROM item", "0"), "\(node.log)")
      #expect(
        try node.bench.run("/usr/bin/sqlite3", [node.bench.path("target.db"), ".tables"]).output.contains("secret")
          == false)
      #expect(node.end() == 0)
    }

    @Test func `a mesh of databases that have the table is ready`() throws {
      let bench = try Bench()
      var mesh = "[node]\nname = \"hq\"\nstate = \"\(bench.path("state"))\"\n"
      for own in ["a", "b", "c"] {
        _ = try bench.sqlite("\(own).db", "CREATE TABLE item(id TEXT PRIMARY KEY NOT NULL, v TEXT)")
        mesh += "[database.\(own)]\nurl = \"sqlite://\(bench.path("\(own).db"))\"\n"
        mesh += "[capture.\(own)]\ndatabase = \"\(own)\"\n"
        for other in ["a", "b", "c"] where other != own {
          mesh += "[apply.\(own)\(other)]\ntrail = \"hq.\(own)\"\ndatabase = \"\(other)\"\n"
        }
      }
      try write(bench, "conf/cairn.toml", mesh)
      let ready = try check(bench)
      #expect(ready.status == 0 && errors(ready).isEmpty, "\(ready)")
      // One way, the rows of two databases would be mixed.
      let oneWay = mesh.components(separatedBy: "[capture.c]")[0]
        .replacingOccurrences(of: "[apply.ba]\ntrail = \"hq.b\"\ndatabase = \"a\"\n", with: "")
        .replacingOccurrences(of: "[apply.ab]\ntrail = \"hq.a\"\ndatabase = \"b\"\n", with: "")
      try write(bench, "conf/cairn.toml", oneWay)
      #expect(try check(bench).errors.contains("[name-collision]: apply bc: table item"))
    }

    @Test func `every path is proved, also when one fails`() throws {
      let bench = try Bench()
      _ = try bench.sqlite(
        "shop.db", "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO item VALUES (1, 'a')")
      _ = try bench.sqlite(
        "full.db", "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO item VALUES (2, 'b')")
      try write(
        bench, "conf/cairn.toml",
        conf(
          bench,
          """
          [database.gone]
          url = "sqlite://\(bench.path("gone.db"))"
          [database.full]
          url = "sqlite://\(bench.path("full.db"))"
          [database.down]
          url = "postgresql://cairn@127.0.0.1:1/erp"
          [capture.gone]
          database = "gone"
          [apply.full]
          trail = "hq.shop"
          database = "full"
          [apply.down]
          trail = "hq.shop"
          database = "down"
          [apply.far]
          trail = "till-7.pos"
          database = "copy"
          tables = ["*"]
          [pump.far]
          trail = "till-7.pos"
          from = "https://till-7"

          """))
      let outcome = try check(bench)
      #expect(outcome.status == 66)
      let codes = errors(outcome).map { $0.split(separator: " ").dropFirst(2).prefix(3).joined(separator: " ") }
      #expect(
        codes == [
          "[database-missing]: capture gone:", "[conf-missing]: pump far:", "[database-unreachable]: apply down:",
          "[target-differs]: apply full:",
        ])
      #expect(outcome.errors.contains("set existing in [apply.full] to \"keep\""))
      #expect(outcome.errors.contains("hint: run 'cairn peer join'"))
      #expect(outcome.output.contains("table item: key id"))
      #expect(outcome.output.contains("comes from node till-7"))
      #expect(outcome.output.contains("not ready: 4 errors"))
      #expect(try bench.sqlite("shop.db", "SELECT count(*) FROM sqlite_master WHERE name LIKE 'cairn%'") == "0\n")

      try write(bench, "conf/cairn.toml", conf(bench))
      let good = try check(bench, ["--json"])
      #expect(good.status == 0, "\(good.errors)")
      #expect(good.output.split(separator: "\n").allSatisfy { $0.hasPrefix("{\"event\":") })
      #expect(good.output.hasSuffix("{\"event\":\"checked\",\"errors\":0}\n"))
    }

    @Test func `the parts that apply will leave out are reported before`() throws {
      let bench = try Bench()
      _ = try bench.sqlite(
        "shop.db",
        """
        CREATE TABLE customer(id INTEGER PRIMARY KEY);
        CREATE TABLE sale(id INTEGER PRIMARY KEY, customer INTEGER REFERENCES customer(id))
        """)
      var targets = ["sqlite://\(bench.path("copy.db"))"]
      let pair = postgresProblem == nil ? try PairBench(.sqliteToPostgres) : nil
      defer { withExtendedLifetime(pair) {} }
      if let pair { targets.append(pair.to.url) }
      for target in targets {
        let text = conf(bench).replacingOccurrences(of: "sqlite://\(bench.path("copy.db"))", with: target)
        try write(bench, "conf/cairn.toml", text + "tables = [\"*sale\"]\n")
        let outcome = try check(bench)
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(outcome.output.contains("it references table"), "\(target): \(outcome.output)")
        #expect(outcome.output.contains("which 'tables' of the apply does not include"), "\(outcome.output)")
        #expect(outcome.output.contains("customer is left out: 'tables' of the apply does not include"))
        try write(bench, "conf/cairn.toml", text)
        let all = try check(bench)
        #expect(all.status == 0 && !all.output.contains("does not include"), "\(all.output)\(all.errors)")
      }
    }

    @Test func `expressions are compiled, and shaped tables have their contract`() throws {
      let bench = try Bench()
      _ = try bench.sqlite(
        "shop.db",
        "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); CREATE TABLE sale(id INTEGER PRIMARY KEY, total REAL)")
      let rules = """
        [[apply.copy.table]]
        from = "item"
        to = "goods"
        where = "nam <> ''"
        [[apply.copy.table]]
        from = "sale"
        columns = { id = "id", cents = "CAST(total * 100 AS INTEGER)", store = "'042'" }
        [[apply.copy.table]]
        from = "gone"
        mode = "history"

        """
      try write(bench, "conf/cairn.toml", conf(bench, rules))
      let bad = try check(bench)
      #expect(
        errors(bad).count == 1 && bad.errors.contains("[rule-refused]: apply copy: the rule for table item"),
        "\(bad.errors)")
      #expect(bad.errors.contains("id, name"))
      // Every table whose rule cannot be kept is named.
      try write(bench, "conf/cairn.toml", conf(bench, rules.replacingOccurrences(of: "total *", with: "tota *")))
      let worse = try check(bench)
      #expect(
        errors(worse).count == 2 && worse.errors.contains("the rule for table item")
          && worse.errors.contains("the rule for table sale"), "\(worse.errors)")
      try write(bench, "conf/cairn.toml", conf(bench, rules.replacingOccurrences(of: "nam <>", with: "name <>")))
      let gone = try check(bench)
      #expect(
        errors(gone).count == 1
          && gone.errors.contains("[table-missing]: apply copy: the rule for table gone matches nothing"),
        "\(gone.errors)")
      let kept = rules.replacingOccurrences(of: "nam <>", with: "name <>")
      let typo = kept.replacingOccurrences(of: "\"gone\"", with: "\"seen\"")
      _ = try bench.sqlite("shop.db", "CREATE TABLE seem(id INTEGER PRIMARY KEY)")
      try write(bench, "conf/cairn.toml", conf(bench, typo))
      #expect(try check(bench).errors.contains("did you mean from = \"seem\"?"))
      try write(bench, "conf/cairn.toml", conf(bench, typo.replacingOccurrences(of: "seen", with: "seem")))
      let good = try check(bench)
      #expect(good.status == 0, "\(good.errors)")
      #expect(good.output.contains("item -> goods"))
      #expect(good.output.contains("  cents: INTEGER -> INTEGER, lossless"))
      // A rule that is right for no table is an error of the conf, at its place.
      let wrong = rules.replacingOccurrences(of: "nam <> ''", with: "v <<").replacingOccurrences(
        of: "CAST(total * 100 AS INTEGER)", with: "random()")
      try write(bench, "conf/cairn.toml", conf(bench, wrong))
      let refused = try check(bench)
      #expect(refused.status == 78 && errors(refused).count == 2, "\(refused)")
      let lines = conf(bench, wrong).split(separator: "\n", omittingEmptySubsequences: false)
      for (text, what) in [("where = \"v", "where is refused"), ("\"random()", "column cents is refused")] {
        let line = try #require(lines.firstIndex { $0.contains(text) }) + 1
        #expect(refused.errors.contains("[conf-value]: conf/cairn.toml:\(line):"), "\(refused.errors)")
        #expect(refused.errors.contains(what), "\(refused.errors)")
      }
      let collides = "[[apply.copy.table]]\nfrom = \"item\"\nto = \"Sale\"\n"
      try write(bench, "conf/cairn.toml", conf(bench, collides))
      #expect(try check(bench).errors.contains("[name-collision]: apply copy"))
    }

    @Test func `a table that goes both ways needs a key, keys that only one end draws, and the same rules`() throws {
      let bench = try Bench()
      for name in ["shop", "copy"] {
        _ = try bench.sqlite(
          "\(name).db",
          "CREATE TABLE up(id INTEGER PRIMARY KEY); CREATE TABLE down(id INTEGER PRIMARY KEY); CREATE TABLE log(t)")
      }
      let back = "[capture.copy]\ndatabase = \"copy\"\n[apply.shop]\ntrail = \"hq.copy\"\ndatabase = \"shop\"\n"
      func both(_ apply: String = "", tables: String = #"["*", "!log"]"#, keys: String = "") throws -> Outcome {
        try write(bench, "conf/cairn.toml", conf(bench, apply + back))
        let both = "[capture.shop]\ntables = \(tables)\n[capture.copy]\ntables = \(tables)\n"
        try write(bench, "conf/conf.d/a.toml", both + (keys.isEmpty ? "" : "[database.copy]\nkeys = \"\(keys)\"\n"))
        return try check(bench)
      }
      let keyless = try both(tables: "[\"*\"]")
      #expect(keyless.status == 65 && keyless.errors.contains("table log cannot be replicated two-way without a key"))
      #expect(keyless.errors.contains("leave it out of 'tables' of [capture.shop], as in [\"*\", \"!log\"]"))
      let alike = try both()
      #expect(alike.status == 78 && errors(alike).count == 1)
      #expect(alike.errors.contains("[keys-alike]: apply copy: "), "\(alike.errors)")
      #expect(alike.errors.contains("different rows: up.id, down.id"), "\(alike.errors)")
      #expect(alike.errors.contains("keys = \"shared\" into [database.copy]"))
      let good = try both(keys: "shared")
      #expect(good.status == 0, "\(good.errors)")
      #expect(good.output.contains("2 tables are two-way, back by [apply.shop]"))
      #expect(good.output.contains("[capture.shop] and [capture.copy] both copy the rows"), "\(good.output)")
      try write(bench, "conf/conf.d/b.toml", "[capture.copy]\ncopy = false\n")
      #expect(try !both(keys: "shared").output.contains("both copy the rows"))
      let differing = try both("conflict = \"source\"\n", keys: "shared")
      #expect(differing.status == 78 && differing.errors.contains("differ from those of [apply.shop]"), "\(differing)")
      #expect(differing.output.contains("conflicts, source: converges if the ways agree"))
      let unknown = try both(
        "[[apply.copy.table]]\nfrom = \"up\"\nconflicts = { stok = \"max\" }\n", keys: "shared")
      #expect(unknown.status == 78 && unknown.errors.contains("conflicts in stok, which is not a column"), "\(unknown)")
      let decided = try both("conflict = \"source\"\ndecides = \"hq.copy\"\n", keys: "shared")
      #expect(decided.status == 0, "\(decided.errors)")
      #expect(decided.output.contains("conflicts, source: decided at hq.copy, for all nodes"))
      #expect(decided.output.contains("conflicts, newest: converges: "))
      let theirs = "[apply.shop]\nconflict = \"insert-only\"\ndecides = \"hq.shop\"\n"
      try write(bench, "conf/conf.d/c.toml", theirs)
      let two = try both("conflict = \"insert-only\"\ndecides = \"hq.copy\"\n", keys: "shared")
      #expect(
        two.status == 78 && two.errors.contains("hq.copy decides conflicts here, and hq.shop"), "\(two)"
      )
      try FileManager.default.removeItem(atPath: bench.path("conf/conf.d/c.toml"))
      let unclear = try both("conflict = \"source\"\ndecides = \"hq\"\n", keys: "shared")
      #expect(unclear.status == 78 && unclear.errors.contains("hq, which is to decide, is the node of"), "\(unclear)")
      try write(bench, "conf/cairn.toml", conf(bench, back))
      for name in ["shop", "copy"] { _ = try bench.sqlite("\(name).db", "DROP TABLE log") }
      // Under other names they do not meet.
      let apart = """
        [[apply.copy.table]]
        from = "up"
        to = "their_up"
        [[apply.copy.table]]
        from = "down"
        to = "their_down"

        """
      try write(bench, "conf/conf.d/a.toml", apart)
      let renamed = try check(bench)
      #expect(renamed.status == 0, "\(renamed.errors)")
      try write(
        bench, "conf/conf.d/a.toml", "[capture.shop]\ntables = [\"up\"]\n[capture.copy]\ntables = [\"*\", \"!UP\"]\n")
      #expect(try check(bench).status == 0)
    }

    @Test(.enabled(if: postgresProblem == nil, "\(postgresProblem ?? "")"), arguments: ["shared", ""])
    func `a column with the rule delta needs whole rows in the log, also with shared keys`(keys: String) throws {
      let server = try PostgresServer.shared
      let bench = try Bench()
      let name = "check_" + UUID().uuidString.prefix(8).lowercased()
      let url = try server.createDatabase(name)
      defer { try? server.dropDatabase(name) }
      let table = "CREATE TABLE item(code text NOT NULL PRIMARY KEY, stock integer)"
      try server.psql(table, name)
      _ = try bench.sqlite("copy.db", table)
      let rule = "[[apply.NAME.table]]\nfrom = \"*\"\nconflicts = { stock = \"delta\" }\n"
      let both = ["copy", "erp"].map { rule.replacing("NAME", with: $0) }.joined()
      try write(
        bench, "conf/cairn.toml",
        """
        [node]
        name = "hq"
        state = "\(bench.path("state"))"
        [database.erp]
        url = "\(url)"
        [database.copy]
        url = "sqlite://\(bench.path("copy.db"))"
        \(keys.isEmpty ? "" : "keys = \"\(keys)\"")
        [capture.erp]
        database = "erp"
        [capture.copy]
        database = "copy"
        [apply.copy]
        trail = "hq.erp"
        database = "copy"
        [apply.erp]
        trail = "hq.copy"
        database = "erp"
        \(both)
        """)
      let refused = try check(bench)
      #expect(errors(refused).count == 1 && refused.errors.contains("[table-refused]"), "\(refused.errors)")
      #expect(refused.errors.contains("column stock of table item has the rule delta"), "\(refused.errors)")
      try server.psql("ALTER TABLE item REPLICA IDENTITY FULL", name)
      let good = try check(bench)
      #expect(good.status == 0, "\(good.errors)")
    }

    @Test(.enabled(if: geteuid() == 0, "only root may make files that another user cannot write"))
    func `the rights are those of the daemon's user`() throws {
      let bench = try Bench()
      _ = try bench.sqlite("shop.db", "CREATE TABLE item(id INTEGER PRIMARY KEY)")
      try write(bench, "conf/cairn.toml", conf(bench), mode: 0o600)
      try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: bench.folder)
      try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: bench.path("shop.db"))
      let outcome = try check(bench, ["--user", "nobody"])
      #expect(outcome.status == 78)
      #expect(outcome.errors.contains("node hq: user nobody cannot read conf/cairn.toml"))
      let folder = bench.folder.replacingOccurrences(of: "//", with: "/")
      #expect(
        outcome.errors.contains("capture shop: user nobody cannot write \(folder)/shop.db\n"), "\(outcome.errors)")
      #expect(outcome.errors.contains("apply copy: user nobody cannot write \(folder)\n"))
      #expect(try check(bench, ["--user", "root"]).status == 0)
      // The owner of the state folder runs the daemon, unless another user is named.
      try FileManager.default.createDirectory(atPath: bench.path("state"), withIntermediateDirectories: true)
      let nobody = getpwnam("nobody").pointee
      for (path, mode) in [(".", 0o777), ("conf/cairn.toml", 0o644), ("shop.db", 0o666), ("state", 0o700)] {
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: bench.path(path))
        if path == "state" { chown(bench.path(path), nobody.pw_uid, nobody.pw_gid) }
      }
      let good = try check(bench)
      #expect(good.status == 0, "\(good.errors)")
      try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: bench.folder)
      let shut = try check(bench)
      #expect(
        shut.errors.contains("capture shop: user nobody cannot write \(folder)/shop.db: \(folder) denies access"),
        "\(shut.errors)")
      #expect(try check(bench, ["--user", "no-such-user"]).status == 64)
    }

    @Test(.enabled(if: postgresProblem == nil, "\(postgresProblem ?? "")"))
    func `PostgreSQL is proved with the password of a credential, which is never shown`() throws {
      var settings = PostgresServer.Settings()
      settings.listens = true
      let server = try PostgresServer(settings)
      let bench = try Bench()
      try server.psql(
        "CREATE ROLE guest LOGIN PASSWORD 'geh:eim/@?'; CREATE TABLE item(id int PRIMARY KEY, v text); CREATE TABLE bare(v text)"
      )
      let url = "postgresql://guest@127.0.0.1:\(server.port)/postgres"
      try write(
        bench, "conf/cairn.toml",
        """
        [node]
        name = "hq"
        state = "\(bench.path("state"))"
        [database.erp]
        url = "\(url)"
        [database.copy]
        url = "sqlite://\(bench.path("copy.db"))"
        [capture.erp]
        database = "erp"
        [apply.copy]
        trail = "hq.erp"
        database = "copy"

        """)
      #expect(try check(bench).errors.contains("[login-refused]: capture erp"))
      try write(bench, "conf/credentials/erp", "geh:eim/@?\n", mode: 0o600)
      let barred = try check(bench)
      #expect(barred.errors.contains("[privilege-missing]: capture erp"), "\(barred.errors)")
      #expect(barred.errors.contains("ALTER ROLE \"guest\" REPLICATION"))
      try server.psql(
        "ALTER ROLE guest REPLICATION; GRANT ALL ON ALL TABLES IN SCHEMA public TO guest; GRANT CREATE ON DATABASE postgres TO guest"
      )
      let good = try check(bench)
      #expect(good.status == 0, "\(good.errors)")
      #expect(good.output.contains("item -> item"))
      #expect(good.output.contains("lossless"))
      let rule = "[[apply.copy.table]]\nfrom = \"*\"\nlocal_writes = \"allow\"\n"
      try write(bench, "conf/conf.d/filter.toml", rule)
      let allowed = try check(bench)
      let told = allowed.output + allowed.errors
      #expect(allowed.status == 0 && told.contains("table item: one-way"), "\(allowed)")
      #expect(
        told.contains("are overwritten without an entry in the conflict log")
          && told.contains("ALTER TABLE public.item REPLICA IDENTITY FULL"))
      let filter = "[[apply.copy.table]]\nfrom = \"item\"\nwhere = \"v <> 'x'\"\n"
      try write(bench, "conf/conf.d/filter.toml", filter)
      let partial = try check(bench)
      #expect(partial.errors.contains("ALTER TABLE public.item REPLICA IDENTITY FULL"), "\(partial.errors)")
      try server.psql("ALTER TABLE item REPLICA IDENTITY FULL")
      #expect(try check(bench).status == 0)
      // Two captures of one server need two slots; two ways to one database are one database.
      let more = "[database.more]\nurl = \"postgresql://guest@127.0.0.1:\(server.port)/more\"\n"
      try server.psql("CREATE DATABASE more OWNER guest")
      try write(bench, "conf/credentials/more", "geh:eim/@?\n", mode: 0o600)
      try write(bench, "conf/conf.d/more.toml", more + "[capture.more]\ndatabase = \"more\"\ntables = [\"item\"]\n")
      try server.psql("CREATE TABLE item(id int PRIMARY KEY)", "more")
      let limit = Int(try server.psql("SHOW max_replication_slots")) ?? 0
      let others = "FROM generate_series(1, \(limit - 1)) AS i"
      try server.psql("SELECT pg_create_physical_replication_slot('s' || i) \(others)")
      let crowded = try check(bench)
      #expect(
        errors(crowded).count == 1 && crowded.errors.contains("capture more")
          && crowded.errors.contains("\(limit - 1) of \(limit) replication slots are in use"), "\(crowded.errors)")
      try server.psql("SELECT pg_drop_replication_slot('s' || i) \(others)")
      #expect(try check(bench).status == 0)
      try write(
        bench, "conf/conf.d/more.toml",
        more.replacing("/more\"", with: "/postgres?connect_timeout=9\"") + "[capture.more]\ndatabase = \"more\"\n")
      let twice = try check(bench)
      #expect(twice.errors.contains("capture.erp already captures this database"), "\(twice.errors)")
      // A trail of another node, too, comes into a database once.
      try server.psql("ALTER ROLE guest SUPERUSER")
      _ = try bench.sqlite("few.db", "CREATE TABLE few(id INTEGER PRIMARY KEY)")
      for isSource in [true, false] {
        let ends = [server.url("more"), "sqlite:few.db"]
        let looked = try bench.run(
          Bench.cairn, ["check", "--from", ends[isSource ? 0 : 1], "--to", ends[isSource ? 1 : 0]])
        #expect(looked.status == 0 && (looked.output + looked.errors).contains("is a superuser"), "\(looked)")
      }
      try write(
        bench, "conf/conf.d/more.toml",
        more.replacing("/more\"", with: "/postgres?connect_timeout=9\"")
          + "[apply.far]\ntrail = \"shop.own\"\ndatabase = \"erp\"\ntables = [\"*\"]\n"
          + "[apply.far-again]\ntrail = \"shop.own\"\ndatabase = \"more\"\ntables = [\"*\"]\n"
          + "[receive]\nlisten = \"127.0.0.1:\(try NetworkBench.freePort())\"\ninsecure = true\n"
          + "[peer.shop]\nmay = { push = [\"shop.own\"] }\n")
      let far = try check(bench)
      #expect(far.errors.contains("apply.far already applies trail shop.own to this database"), "\(far.errors)")
      try FileManager.default.removeItem(atPath: bench.path("conf/conf.d/more.toml"))
      let shown = try bench.run(Bench.cairn, ["config", "show", "--config", "conf"])
      #expect(shown.status == 0)
      #expect(shown.output.contains("password = \"********\""))
      #expect(shown.output.contains("# conf/cairn.toml:5"))
      for outcome in [barred, good, shown] { #expect(!(outcome.output + outcome.errors).contains("geh")) }
    }
  }
}
