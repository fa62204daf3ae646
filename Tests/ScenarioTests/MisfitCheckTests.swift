import Foundation
import TestServers
import Testing

extension Scenarios {
  /// `cairn check` finds values in the rows of a file that a server's columns do not take.
  @Suite(.enabled(if: postgresProblem == nil, "\(postgresProblem ?? "")"))
  struct MisfitCheckTests {
    private func pair() throws -> PairBench {
      let pair = try PairBench(.sqliteToPostgres)
      try pair.sql(
        pair.from,
        """
        PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, price INTEGER, note TEXT);
        INSERT INTO item VALUES (1, 10, 'tea'), (2, 'n/a', 'rice'), (3, 'free', 'salt'), (4, 1, 'a' || char(0));
        CREATE TABLE sale(id INTEGER PRIMARY KEY); INSERT INTO sale VALUES (1), (2)
        """)
      return pair
    }

    @Test func `check names the first row of each column, and its setting lets the copy end`() throws {
      let pair = try pair()
      func check(_ more: String...) throws -> Outcome {
        try pair.bench.run(Bench.cairn, ["check", "--from", pair.from.url, "--to", pair.to.url] + more)
      }
      let found = try check()
      #expect(found.status == 0, "\(found)")
      for line in [
        "item: looked at all 4 rows: some values do not fit",
        "  price: 2 rows with a value that does not fit, first row id=2, value 'n/a': it is not an integer; the apply stops there: correct the values at the source, or set misfits = [\"item.price=null\"] or [\"item.price=widen\"] in [apply.NAME] (--misfit)",
        "  note: 1 row with a value that does not fit, first row id=4, value ",
        "sale: looked at all 2 rows: every value fits",
      ] { #expect(found.output.contains(line), "\(line): \(found.output)") }
      let part = try check("--rows", "1")
      #expect(part.output.contains("item: looked at the first 1 row, up to the limit of rows or time"), "\(part)")
      #expect(try !check("--rows", "0").output.contains("looked at"))
      #expect(try check("--rows", "few").status == 64)
      let json = try check("--json").output
      #expect(json.contains("\"event\":\"misfit\"") && json.contains("\"settings\":[\"item.price=null\""), "\(json)")
      #expect(json.contains("\"event\":\"scan\",\"table\":\"sale\",\"rows\":2,\"whole\":true"), "\(json)")

      // The printed settings are taken as they are.
      let copied = try pair.once(["--misfit", "item.price=widen,item.note=null"])
      #expect(copied.status == 0, "\(copied)")
      #expect(try pair.sql(pair.to, "SELECT string_agg(price, ',' ORDER BY id) FROM item") == "10,n/a,free,1")
    }

    @Test func `check of a conf says what its misfits do, and knows the types that are there`() throws {
      let pair = try pair()
      try pair.sql(pair.to, "CREATE TABLE item(id bigint PRIMARY KEY, price integer, note text)")
      try pair.sql(pair.from, "INSERT INTO sale VALUES (3); INSERT INTO item(id, price) VALUES (0, 3000000000)")
      let conf = pair.bench.path("conf")
      try FileManager.default.createDirectory(atPath: conf, withIntermediateDirectories: true)
      try Data(
        """
        [node]
        name = "store-042"
        state = "\(pair.bench.path("state"))"
        [database.pos]
        url = "sqlite://\(pair.bench.path("source.db"))"
        [database.erp]
        url = "\(pair.to.url)"
        [capture.pos]
        database = "pos"
        [apply.erp]
        trail = "store-042.pos"
        database = "erp"
        misfits = ["item.price=null"]
        """.utf8
      ).write(to: URL(fileURLWithPath: conf + "/cairn.toml"))
      let checked = try pair.bench.run(Bench.cairn, ["check", "--config", "conf"])
      #expect(checked.status == 0, "\(checked)")
      let price = "first row id=0, value 3000000000: it is out of the range of integer; 'misfits' writes NULL instead"
      #expect(checked.output.contains(price), "\(checked.output)")
      #expect(checked.output.contains("set misfits = [\"item.note=null\"] in [apply.NAME]"), "\(checked.output)")
    }
  }
}
