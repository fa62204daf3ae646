import Changes
import PostgresKit
import SQLiteKit

/// The number of rows in a table and the sum of their hashes: equal for the same rows in any order and in either
/// engine.
///
/// The columns are given as SQL that prints the same in both.
struct Digest: Equatable, CustomStringConvertible {
  private(set) var rows = 0
  private var sum: UInt64 = 0

  var description: String { "\(rows) rows, hash \(String(sum, radix: 16))" }

  private mutating func add(_ line: UnsafeRawBufferPointer) {
    rows += 1
    sum &+= XXHash64.of(line)
  }

  init(_ connection: PostgresConnection, table: String, columns: [String]) throws {
    let list = columns.map { "(\($0))::text" }.joined(separator: " || ' ' || ")
    try connection.copyOut("COPY (SELECT \(list) FROM \(table)) TO STDOUT") { line in
      add(UnsafeRawBufferPointer(rebasing: line.dropLast()))
    }
  }

  init(_ database: Database, table: String, columns: [String]) throws {
    let statement = try database.prepare(
      "SELECT \(columns.map { "(\($0))" }.joined(separator: " || ' ' || ")) FROM \(table)")
    while try statement.step() { if case .text(let line) = statement.view(0) { add(line) } }
  }
}
