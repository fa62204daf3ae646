import Foundation
import Glibc
import TestServers
import Testing

extension Scenarios {
  /// Several `cairn replicate` from one SQLite file: one capture, one trail, a reader for each target.
  @Suite struct SharedCaptureTests {
    private func arguments(_ target: String, _ more: [String] = []) -> [String] {
      let name = target.hasPrefix("sqlite:") ? String(target.dropFirst(7)) : "server"
      return ["replicate", "--from", "sqlite:source.db", "--to", target, "--state", "state-\(name)"] + more
    }

    /// A path in the bench's folder as `cairn` prints it.
    private func path(_ bench: Bench, _ name: String) -> String {
      URL(fileURLWithPath: bench.folder).resolvingSymlinksInPath().path + "/" + name
    }

    private func once(_ bench: Bench, _ target: String, _ more: [String] = []) throws -> Outcome {
      try bench.run(Bench.cairn, arguments(target, more + ["--once"]), seconds: 180)
    }

    private func wait(_ seconds: Double = 30, _ condition: () throws -> Bool) -> Bool {
      let limit = Date().addingTimeInterval(seconds)
      while Date() < limit {
        if (try? condition()) == true { return true }
        usleep(50_000)
      }
      return false
    }

    private func equal(_ bench: Bench, _ target: String, _ more: [String] = []) throws -> String {
      let outcome = try bench.run(Bench.python, [Bench.tool("compare.py"), "source.db", target] + more)
      return outcome.status == 0 ? "" : String((outcome.output + outcome.errors).suffix(2000))
    }

    private func segments(_ bench: Bench, _ state: String = "state-a.db") throws -> [String] {
      try FileManager.default.contentsOfDirectory(atPath: bench.path("\(state)/local.source"))
        .filter { $0.hasSuffix(".seg") }.sorted()
    }

    /// More than a segment of rows that do not compress.
    private func fill(_ bench: Bench, _ table: String = "big") throws {
      _ = try bench.sqlite(
        "source.db",
        "CREATE TABLE IF NOT EXISTS \(table)(id INTEGER PRIMARY KEY, v BLOB);"
          + String(repeating: "INSERT INTO \(table)(v) VALUES (randomblob(1000000));", count: 18))
    }

    @Test(.enabled(if: postgresProblem == nil, "\(postgresProblem ?? "")"))
    func `two targets share a capture that passes from one to the other, whatever is killed`() throws {
      let pairs = try PairBench(.sqliteToPostgres)
      let bench = pairs.bench
      let seed = drawSeed("shared capture")
      var random = Seeded(seed)
      try pairs.makeSample()
      let copy = End(name: "copy.db", isPostgres: false, url: "sqlite:copy.db")
      let ends = [pairs.to, copy]
      let program = try pairs.workload(
        0, seed: seed, ["--transactions", isSoak ? "6000" : "400", "--mark", "--pause-ms", isSoak ? "2" : "10"])
      var cairns: [Child?] = [nil, nil]
      func start(_ index: Int) throws {
        cairns[index] = try bench.start("cairn\(index)", Bench.cairn, arguments(ends[index].url))
      }
      try start(0)
      usleep(UInt32.random(in: 0...1_500_000, using: &random))
      try start(1)
      for _ in 0..<(isSoak ? 60 : 8) {
        usleep(UInt32.random(in: 50_000...800_000, using: &random))
        let index = Int.random(in: 0..<2, using: &random)
        #expect(cairns[index]?.isRunning == true, "\(pairs.said("cairn\(index)"))")
        if Bool.random(using: &random) {
          cairns[index]?.signal(SIGKILL)
          cairns[index]?.waitUntilExit()
        } else {
          // A program that has just been started may not handle the signal yet.
          let status = cairns[index].map { bench.stop($0) }
          #expect(status == 0 || status == 128 + SIGINT, "\(pairs.said("cairn\(index)"))")
        }
        usleep(UInt32.random(in: 0...700_000, using: &random))
        try start(index)
      }
      program.wait(seconds: isSoak ? 1200 : 120)
      #expect(program.terminationStatus == 0, "\(pairs.said("workload0"))")
      // With the other one at work, as host or as reader, and then without.
      _ = cairns[0].map { bench.stop($0) }
      let beside = try once(bench, ends[0].url)
      #expect(beside.status == 0, "\(beside.errors)")
      try pairs.expectEqual(pairs.from, ends[0])
      _ = cairns[1].map { bench.stop($0) }
      let alone = try once(bench, ends[1].url)
      #expect(alone.status == 0, "\(alone.errors)")
      for end in ends { try pairs.expectEqual(pairs.from, end) }
      let list = try bench.run(Bench.cairn, ["trail", "list", "--state", "state-copy.db"])
      #expect(list.output.contains("copy.db, needs it") && list.output.contains("postgresql"), "\(list)")
    }

    @Test func `the second one applies while the first captures, and hosts the capture when that is killed`() throws {
      let bench = try Bench()
      try bench.makeSample()
      let first = try bench.start("first", Bench.cairn, arguments("sqlite:a.db"))
      #expect(wait { bench.text("first.out").contains("following") }, "\(bench.text("first.err"))")
      let second = try bench.start("second", Bench.cairn, arguments("sqlite:b.db"))
      #expect(wait { bench.text("second.out").contains("following") }, "\(bench.text("second.err"))")
      #expect(bench.text("second.err").contains("this one reads it"), "\(bench.text("second.err"))")
      _ = try bench.sqlite("source.db", "CREATE TABLE later(id INTEGER PRIMARY KEY); INSERT INTO later VALUES (1)")
      let third = try once(bench, "sqlite:c.db")
      #expect(third.status == 0, "\(third.errors)")
      #expect(try equal(bench, "c.db") == "")
      first.signal(SIGKILL)
      first.waitUntilExit()
      _ = try bench.sqlite("source.db", "INSERT INTO later VALUES (2)")
      #expect(wait { try bench.sqlite("b.db", "SELECT count(*) FROM later") == "2\n" }, "\(bench.text("second.err"))")
      // The first one joins in its turn.
      let again = try bench.start("again", Bench.cairn, arguments("sqlite:a.db"))
      #expect(wait { bench.text("again.err").contains("this one reads it") }, "\(bench.text("again.err"))")
      _ = try bench.sqlite("source.db", "INSERT INTO later VALUES (3)")
      #expect(wait { try bench.sqlite("a.db", "SELECT count(*) FROM later") == "3\n" })
      #expect(bench.stop(second) == 0, "\(bench.text("second.err"))")
      _ = try bench.sqlite("source.db", "INSERT INTO later VALUES (4)")
      #expect(wait { try bench.sqlite("a.db", "SELECT count(*) FROM later") == "4\n" }, "\(bench.text("again.err"))")
      #expect(bench.stop(again) == 0, "\(bench.text("again.err"))")
      for target in ["a.db", "b.db", "c.db"] {
        let outcome = try once(bench, "sqlite:\(target)")
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(try equal(bench, target, ["--schema"]) == "")
      }
    }

    @Test func `replications that start at the same moment share one capture`() throws {
      for _ in 0..<(isSoak ? 40 : 8) {
        let bench = try Bench()
        _ = try bench.sqlite("source.db", "CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
        let targets = ["a.db", "b.db", "c.db"]
        let cairns = try targets.map { try bench.start($0, Bench.cairn, arguments("sqlite:\($0)")) }
        for target in targets {
          #expect(
            wait { bench.text("\(target).out").contains("following") }, "\(target): \(bench.text("\(target).err"))")
        }
        _ = try bench.sqlite("source.db", "INSERT INTO t VALUES (2)")
        for (target, cairn) in zip(targets, cairns) {
          #expect(wait { try bench.sqlite(target, "SELECT count(*) FROM t") == "2\n" })
          #expect(bench.stop(cairn) == 0, "\(target): \(bench.text("\(target).err"))")
        }
      }
    }

    @Test func `replications that are stopped while others begin to capture end without an error`() throws {
      var random = Seeded(drawSeed("stops while captures begin"))
      for _ in 0..<(isSoak ? 60 : 12) {
        let bench = try Bench()
        _ = try bench.sqlite("source.db", "CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
        let targets = ["a.db", "b.db", "c.db"]
        let cairns = try targets.map { try bench.start($0, Bench.cairn, arguments("sqlite:\($0)")) }
        usleep(UInt32.random(in: 20_000...200_000, using: &random))
        for cairn in cairns { cairn.signal(SIGINT) }
        for (target, cairn) in zip(targets, cairns) {
          // The second signal kills a program that has not begun to handle the first one.
          let status = bench.stop(cairn)
          #expect(status == 0 || status == 128 + SIGINT, "\(target): \(bench.text("\(target).err"))")
        }
      }
    }

    @Test func `each target gets the tables of its own list, also while the first one runs`() throws {
      let bench = try Bench()
      _ = try bench.sqlite(
        "source.db",
        "PRAGMA journal_mode = WAL; "
          + ["one", "two", "three"].map {
            "CREATE TABLE \($0)(id INTEGER PRIMARY KEY, v); INSERT INTO \($0) VALUES (1, 'a');"
          }
          .joined())
      let first = try bench.start("first", Bench.cairn, arguments("sqlite:a.db", ["--tables", "one"]))
      #expect(wait { bench.text("first.out").contains("following") }, "\(bench.text("first.err"))")
      let second = try bench.start("second", Bench.cairn, arguments("sqlite:b.db", ["--tables", "*,!one"]))
      #expect(wait { try bench.sqlite("b.db", "SELECT v FROM three") == "a\n" }, "\(bench.text("second.err"))")
      _ = try bench.sqlite(
        "source.db", "UPDATE one SET v = 'b'; UPDATE two SET v = 'b'; CREATE TABLE four(id INTEGER PRIMARY KEY)")
      let third = try once(bench, "sqlite:c.db", ["--tables", "t*"])
      #expect(third.status == 0, "\(third.errors)")
      #expect(wait { try bench.sqlite("a.db", "SELECT v FROM one") == "b\n" })
      #expect(wait { try bench.sqlite("b.db", "SELECT count(*) FROM four") == "0\n" })
      func tables(_ target: String) throws -> String {
        try bench.sqlite(
          target,
          "SELECT group_concat(name) FROM (SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'cairn%' AND name NOT LIKE 'sqlite%' ORDER BY name)"
        )
      }
      #expect(try tables("a.db") == "one\n")
      #expect(try tables("b.db") == "four,three,two\n")
      #expect(try tables("c.db") == "three,two\n")
      #expect(try bench.sqlite("c.db", "SELECT v FROM two") == "b\n")
      // A list that grows later is a list of this target only.
      #expect(bench.stop(first) == 0, "\(bench.text("first.err"))")
      let wider = try once(bench, "sqlite:a.db", ["--tables", "one,two"])
      #expect(wider.status == 0, "\(wider.errors)")
      #expect(try tables("a.db") == "one,two\n")
      #expect(try bench.sqlite("a.db", "SELECT v FROM two") == "b\n", "\(wider.errors)")
      #expect(bench.stop(second) == 0, "\(bench.text("second.err"))")
    }

    @Test func `the trail is kept for a reader that does not run, and deleted after it`() throws {
      let bench = try Bench()
      _ = try bench.sqlite("source.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 'a')")
      for target in ["sqlite:a.db", "sqlite:b.db"] {
        let outcome = try once(bench, target)
        #expect(outcome.status == 0, "\(outcome.errors)")
      }
      for _ in 0..<3 {
        try fill(bench)
        #expect(try once(bench, "sqlite:a.db").status == 0)
      }
      let kept = try segments(bench)
      #expect(kept.first?.hasPrefix("00000001") == true && kept.count >= 3, "\(kept)")
      let list = try bench.run(Bench.cairn, ["trail", "list", "--state", "state-b.db"])
      #expect(list.output.contains(path(bench, "b.db")) && list.output.contains("local.source"), "\(list)")
      #expect(try once(bench, "sqlite:b.db").status == 0)
      #expect(try equal(bench, "b.db") == "")
      #expect(try segments(bench).first?.hasPrefix("00000001") == false)

      // One that comes when the beginning is gone asks for copies, which do the others no harm.
      _ = try bench.sqlite("c.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (9, 'own')")
      let running = try bench.start("running", Bench.cairn, arguments("sqlite:a.db"))
      #expect(wait { bench.text("running.out").contains("following") })
      let late = try once(bench, "sqlite:c.db", ["--existing", "merge"])
      #expect(late.status == 0, "\(late.errors)")
      #expect(try bench.sqlite("c.db", "SELECT v FROM t ORDER BY id") == "a\nown\n")
      _ = try bench.sqlite("source.db", "UPDATE t SET v = 'b'")
      #expect(wait { try bench.sqlite("a.db", "SELECT v FROM t") == "b\n" })
      let later = try once(bench, "sqlite:d.db")
      #expect(later.status == 0, "\(later.errors)")
      #expect(try equal(bench, "d.db") == "")
      #expect(wait { try equal(bench, "a.db") == "" })
      // A copy that another target asked for leaves rows as its own --existing says.
      #expect(try once(bench, "sqlite:c.db").status == 0)
      #expect(try bench.sqlite("c.db", "SELECT v FROM t ORDER BY id") == "b\nown\n")

      // A state folder that was removed, and a target that was detached, keep nothing.
      try FileManager.default.removeItem(atPath: bench.path("state-b.db"))
      let detached = try bench.run(Bench.cairn, ["detach", "sqlite:c.db", "--state", "state-a.db"])
      #expect(detached.status == 0, "\(detached.errors)")
      let gone = try bench.run(
        Bench.cairn, ["detach", "--reader", "sqlite:d.db", "--state", "state-a.db"])
      #expect(gone.status == 0 && gone.output.contains("local.source"), "\(gone)")
      let before = try segments(bench)
      for _ in 0..<3 {
        try fill(bench)
        usleep(1_500_000)
      }
      #expect(wait { try equal(bench, "a.db") == "" })
      #expect(wait { try segments(bench).first != before.first }, "\(before)")
      #expect(bench.stop(running) == 0, "\(bench.text("running.err"))")
    }

    @Test func `rows of a target's own programs stay when another one asks for copies`() throws {
      let bench = try Bench()
      _ = try bench.sqlite("source.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 'a')")
      #expect(try once(bench, "sqlite:a.db", ["--local-writes", "allow"]).status == 0)
      for _ in 0..<3 {
        try fill(bench)
        #expect(try once(bench, "sqlite:a.db", ["--local-writes", "allow"]).status == 0)
      }
      _ = try bench.sqlite("a.db", "INSERT INTO t VALUES (7, 'own'); UPDATE t SET v = 'mine' WHERE id = 1")
      #expect(try once(bench, "sqlite:b.db").status == 0)
      #expect(try once(bench, "sqlite:a.db", ["--local-writes", "allow"]).status == 0)
      #expect(try bench.sqlite("a.db", "SELECT v FROM t ORDER BY id") == "mine\nown\n")
      #expect(try equal(bench, "b.db") == "")
    }

    @Test func `a place that a program wrote into the file is not believed`() throws {
      let bench = try Bench()
      _ = try bench.sqlite("source.db", "CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
      #expect(try once(bench, "sqlite:a.db").status == 0)
      let own = path(bench, "state-a.db")
      func refuse(_ place: String, _ expected: String, _ line: Int = #line) throws {
        _ = try bench.sqlite("source.db", "UPDATE cairn_control SET place = '\(place)' WHERE id = 0")
        let outcome = try once(bench, "sqlite:b.db")
        #expect(
          outcome.status == 75 && outcome.errors.contains("source-captured") && outcome.errors.contains(expected),
          "line \(line): \(outcome)")
        #expect(!FileManager.default.fileExists(atPath: bench.path("b.db")))
        #expect(!FileManager.default.fileExists(atPath: bench.path("state-b.db")))
      }
      func copyState(_ name: String) throws -> String {
        try FileManager.default.copyItem(atPath: own, toPath: bench.path(name))
        return path(bench, name)
      }
      try refuse("/none/such", "that folder is not private to this user")
      try refuse("state-a.db", "that folder is not private to this user")
      try refuse("/etc", "not the state of a 'cairn replicate'")
      let open = try copyState("open")
      chmod(open, 0o777)
      try refuse(open, "that folder is not private to this user")
      if geteuid() == 0 {
        let foreign = try copyState("foreign")
        chown(foreign, 65534, 65534)
        try refuse(foreign, "that folder is not private to this user")
        try FileManager.default.createSymbolicLink(atPath: bench.path("link"), withDestinationPath: foreign)
        try refuse(path(bench, "link"), "that folder is not private to this user")
      }
      // The right folder with another trail, and of another source.
      let empty = try copyState("empty")
      try FileManager.default.removeItem(atPath: empty + "/local.source")
      try refuse(empty, "the trail that the file names does not exist")
      let other = try copyState("other")
      try Data("from \(path(bench, "else.db"))\nto \(path(bench, "a.db"))\n".utf8).write(
        to: URL(fileURLWithPath: other + "/replication"))
      try refuse(other, "from another database")
      _ = try bench.sqlite("source.db", "UPDATE cairn_control SET trail = randomblob(16) WHERE id = 0")
      try refuse(own, "the trail that the file names does not exist")
    }

    @Test func `two-way, and a file that a daemon captures, are refused with what to do`() throws {
      let bench = try Bench()
      _ = try bench.sqlite("source.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 'a')")
      #expect(try once(bench, "sqlite:a.db").status == 0)
      let both = try once(bench, "sqlite:b.db", ["--two-way"])
      #expect(both.status == 75 && both.errors.contains("--two-way does not share"), "\(both)")
      #expect(try once(bench, "sqlite:b.db").status == 0)
      let turned = try once(bench, "sqlite:a.db", ["--two-way"])
      #expect(turned.status == 75 && turned.errors.contains("--two-way does not share"), "\(turned)")

      let node = try DaemonBench()
      _ = try node.bench.sqlite(
        "source.db", "CREATE TABLE item(id INTEGER PRIMARY KEY, name); INSERT INTO item VALUES (1, 'a')")
      try node.write(node.pair())
      _ = try node.start()
      #expect(try node.bench.waitForTarget("SELECT count(*) FROM item", "1"))
      let joined = try once(node.bench, "sqlite:b.db")
      #expect(
        joined.status == 75 && joined.errors.contains("[apply.NAME] with trail = \"store-042.pos\""), "\(joined)")
      #expect(node.end() == 0)
    }
  }
}
