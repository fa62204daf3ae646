import Foundation
import TestServers
import Testing

extension Scenarios {
  /// Databases that keep text in another encoding than UTF-8, whose bytes sort in another order.
  @Suite struct EncodingScenarioTests {
    /// Makes distinct texts of the letters, whose order differs between the encodings.
    private static let keys = """
      import random
      def keys(letters, count):
          draw = random.Random(1)
          found = set()
          while len(found) < count:
              found.add(''.join(draw.choice(letters) for _ in range(draw.randint(1, 8))))
          return sorted(found, key=lambda k: draw.random())
      """

    private func python(_ bench: Bench, _ text: String) throws {
      let outcome = try bench.run(Bench.python, ["-c", Self.keys + "\n" + text], seconds: 120)
      try #require(outcome.status == 0, "\(outcome)")
    }

    /// A file with the table `t` and so many rows.
    private func make(_ bench: Bench, _ name: String, _ encoding: String, rows: Int) throws {
      try python(
        bench,
        """
        import sqlite3
        c = sqlite3.connect('\(name).db')
        c.execute("PRAGMA encoding = '\(encoding)'"); c.execute('PRAGMA journal_mode = WAL')
        c.execute('CREATE TABLE t(k TEXT PRIMARY KEY, v)'); c.execute('CREATE TABLE w(k TEXT PRIMARY KEY, v) WITHOUT ROWID')
        for table, count in (('t', \(rows)), ('w', \(rows) // 20)):
            c.executemany('INSERT INTO %s VALUES (?, ?)' % table,
                [(k, i) for i, k in enumerate(keys('ab\\u0100\\u0161zZ0\\uffee\\U0001F600\\ue000\\u00e9', count))])
        c.commit()
        """)
    }

    private func replicate(_ bench: Bench, _ from: String, _ to: String, _ more: [String] = []) throws {
      let outcome = try bench.run(
        Bench.cairn, ["replicate", "--from", from, "--to", to, "--once"] + more, seconds: 300)
      #expect(outcome.status == 0, "\(outcome)")
    }

    private static let all = "SELECT count(*), sum(v), sum(v * length(k)) FROM"

    private func rows(_ bench: Bench, _ name: String) throws -> [String] {
      try ["t", "w"].map { try bench.sqlite("\(name).db", "\(Self.all) \($0)") }
    }

    @Test(arguments: [("UTF-16le", "UTF-8"), ("UTF-16be", "UTF-16le"), ("UTF-8", "UTF-16be")])
    func `a copy between files of two encodings has all rows`(from: String, to: String) throws {
      let bench = try Bench()
      // Chunks of a source in UTF-16 are larger.
      try make(bench, "source", from, rows: from == "UTF-8" ? 20_000 : 130_000)
      _ = try bench.sqlite("target.db", "PRAGMA encoding = '\(to)'; CREATE TABLE other(a); DROP TABLE other")
      try replicate(bench, "sqlite:source.db", "sqlite:target.db")
      #expect(try rows(bench, "target") == rows(bench, "source"))
      try replicate(bench, "sqlite:source.db", "sqlite:target.db", ["--existing", "overwrite"])
      #expect(try rows(bench, "target") == rows(bench, "source"))
      let compared = try bench.run(
        Bench.cairn, ["compare", "--from", "sqlite:source.db", "--to", "sqlite:target.db"], seconds: 300)
      #expect(compared.status == 0, "\(compared)")
      _ = try bench.sqlite("target.db", "UPDATE w SET v = -1 WHERE v = 7; DELETE FROM w WHERE v = 8")
      let different = try bench.run(
        Bench.cairn, ["compare", "--from", "sqlite:source.db", "--to", "sqlite:target.db", "--json", "--tables", "w"],
        seconds: 300)
      let lines = different.output.split(separator: "\n").filter { $0.contains(#""event":"difference""#) }
      #expect(lines.count == 2, "\(different)")
    }

    @Test func `a copy of a server in KOI8-R has all rows`() throws {
      guard postgresProblem == nil else { return }
      let (bench, server) = (try Bench(), try PostgresServer.shared)
      let (source, target) = ("koi_source", "koi_target")
      try server.psql("CREATE DATABASE \(source) TEMPLATE template0 ENCODING 'KOI8R' LOCALE 'C'")
      try server.createDatabase(target)
      defer {
        _ = try? bench.run(Bench.cairn, ["detach", server.url(source)])
        for name in [source, target] { try? server.dropDatabase(name) }
      }
      try python(
        bench,
        """
        with open('rows.sql', 'w', encoding='utf-8') as out:
            out.write("SET client_encoding = 'UTF8'; CREATE TABLE t(k text PRIMARY KEY, v int);\\nCOPY t FROM STDIN;\\n")
            for i, k in enumerate(keys('\\u0430\\u0431\\u0446\\u044e\\u044a\\u042f\\u042e\\u0410aZ', 30000)):
                out.write('%s\\t%d\\n' % (k, i))
            out.write('\\\\.\\n')
        """)
      let loaded = try bench.run(
        "/usr/bin/psql", ["-q", "-v", "ON_ERROR_STOP=1", "-f", "rows.sql", server.url(source)])
      try #require(loaded.status == 0, "\(loaded)")
      let wanted = try server.psql("\(Self.all) t", source)
      try replicate(bench, server.url(source), "sqlite:target.db")
      #expect(try bench.sqlite("target.db", "\(Self.all) t").trimmingCharacters(in: .whitespacesAndNewlines) == wanted)
      for more in [[], ["--existing", "overwrite"]] {
        try replicate(bench, server.url(source), server.url(target), ["--state", bench.path("state2")] + more)
        #expect(try server.psql("\(Self.all) t", target) == wanted)
      }
    }
  }
}
