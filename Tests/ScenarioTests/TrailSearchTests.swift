import Foundation
import TestServers
import Testing

/// `cairn trail show` with options that search.
@Suite struct TrailSearchTests {
  /// A trail of two commits, with the tables `item` and `line`.
  private func bench() throws -> Bench {
    let bench = try Bench()
    _ = try bench.sqlite(
      "source.db",
      """
      PRAGMA journal_mode = WAL;
      CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, price INTEGER);
      CREATE TABLE line("order" INTEGER, no TEXT, item INTEGER, PRIMARY KEY("order", no)) WITHOUT ROWID;
      """)
    _ = try bench.replicateOnce()
    _ = try bench.sqlite("source.db", "INSERT INTO item VALUES (7, 'tea', 3), (8, 'rice', 2)")
    _ = try bench.replicateOnce()
    _ = try bench.sqlite("source.db", "UPDATE item SET price = 4 WHERE id = 7; INSERT INTO line VALUES (1, 'a,b', 7)")
    _ = try bench.replicateOnce()
    _ = try bench.sqlite("source.db", "UPDATE item SET name = 'green tea' WHERE id = 7")
    _ = try bench.replicateOnce()
    return bench
  }

  @Test func `a row is found by its key, and by column, time and node`() throws {
    let bench = try bench()
    func show(_ more: [String]) throws -> [String] {
      let outcome = try bench.run(Bench.cairn, ["trail", "show", "--state", "state"] + more)
      #expect(outcome.status == 0, "\(more): \(outcome.errors)")
      // Without positions.
      return outcome.output.split(separator: "\n").map { line in
        line.split(separator: " ", maxSplits: 1).last.map { $0.trimmingCharacters(in: .whitespaces) } ?? ""
      }.filter { !$0.hasPrefix("transaction") }
    }
    let all = [
      "insert item: id = 7, name = 'tea', price = 3", "update item: id = 7; price = 3 -> 4",
      "update item: id = 7; name = 'tea' -> 'green tea'",
    ]
    let row = ["--table", "Item", "--key", "7"]
    func changes(_ more: [String]) throws -> [String] {
      try show(more).filter { $0.hasPrefix("insert") || $0.hasPrefix("update") || $0.hasPrefix("delete") }
    }
    #expect(try changes(row) == all)
    #expect(try changes(row + ["--reverse"]) == all.reversed())
    #expect(try changes(row + ["--last", "2"]) == Array(all.reversed().prefix(2)))
    #expect(try changes(row + ["--column", "PRICE"]) == Array(all.prefix(2)))
    #expect(try changes(row + ["--since", "10 min ago", "--until", "now", "--by", "local"]) == all)
    #expect(try changes(row + ["--since", "yesterday", "--until", "1 h ago"]) == [])
    #expect(try changes(row + ["--by", "hq"]) == [])
    #expect(try changes(["--table", "line", "--key", "1,'a,b'"]) == ["insert line: order = 1, no = 'a,b', item = 7"])
    let json = try bench.run(Bench.cairn, ["trail", "show", "--state", "state", "--json"] + row)
    let records = try json.output.split(separator: "\n").map { line in
      try (JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])?["record"] as? String
    }
    #expect(records.filter { $0 == "change" }.count == 3 && records.first == "begin")
    let sql = try bench.run(Bench.cairn, ["trail", "show", "--state", "state", "--sql", "sqlite"] + row)
    #expect(sql.output.contains("COMMIT;") && sql.output.contains("'green tea'") && !sql.output.contains("'rice'"))
  }

  @Test(arguments: [
    (["--table", "itme"], "no table 'itme'", "did you mean 'item'?"),
    (["--table", "item", "--column", "prise"], "has no column 'prise'", "did you mean 'price'?"),
    (["--key", "7"], "--key needs a table", "add --table"),
    (["--table", "line", "--key", "7"], "has not 2 values", "order,no"),
    (["--since", "soon"], "'soon' is not a time", "yesterday"),
    (["--since", "now", "--until", "yesterday"], "is not before --until", "see"),
    (["--last", "0"], "is not a number of transactions", "such as 10"),
    (["--from", "00000009:00000000"], "ends at", "earlier position"),
    (["--sql", "sqlite", "--last", "1"], "in commit order", "leave out --last"),
    (["--sql", "sqlite", "--reverse", "--table", "item", "--column", "price"], "whole changes", "leave out --column"),
  ])
  func `what cannot be searched is refused with the next step`(_ more: [String], message: String, hint: String) throws {
    let bench = try bench()
    let outcome = try bench.run(Bench.cairn, ["trail", "show", "--state", "state"] + more)
    #expect(outcome.status == 64)
    #expect(outcome.errors.contains(message) && outcome.errors.contains(hint), "\(outcome.errors)")
  }
}
