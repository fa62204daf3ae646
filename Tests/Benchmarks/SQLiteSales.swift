import Changes
import SQLiteKit

/// The table of sales in an SQLite file in WAL mode, written to by prepared statements.
final class SQLiteSales {
  let database: Database
  private var time: [UInt8] = []

  /// Opens the file. `settings` are further pragmas.
  init(_ path: String, settings: String = "PRAGMA synchronous = NORMAL") throws {
    database = try Database(path: path, mode: .create)
    try database.executeScript("PRAGMA journal_mode = WAL; \(settings)")
  }

  /// Makes the table, with the rows of keys from 1 to `rows`.
  func create(rows: Int) throws {
    try database.executeScript(Sale.schema(.sqlite))
    if rows > 0 { try write((1...rows).map { .insert($0) }, perTransaction: rows) }
  }

  func write(_ changes: [SaleChange], perTransaction: Int) throws {
    let insert = try database.prepare("INSERT INTO sale VALUES (?, ?, ?, ?, ?)")
    let update = try database.prepare("UPDATE sale SET till = ?2, price = ?3 WHERE id = ?1")
    let delete = try database.prepare("DELETE FROM sale WHERE id = ?")
    let (begin, commit) = (try database.prepare("BEGIN IMMEDIATE"), try database.prepare("COMMIT"))
    for (number, change) in changes.enumerated() {
      if number % perTransaction == 0 { while try begin.step() {} }
      let sale = change.sale
      switch change.kind {
      case .insert:
        time.removeAll(keepingCapacity: true)
        sale.appendTime(to: &time)
        try bind(insert, sale.id, sale)
        try insert.bind(Value.text(sale.item), at: 4)
        try insert.bind(Value.text(time), at: 5)
        while try insert.step() {}
      case .update:
        try bind(update, sale.id, sale.changed)
        while try update.step() {}
      case .delete:
        try delete.bind(Int64(sale.id), at: 1)
        while try delete.step() {}
      }
      if (number + 1) % perTransaction == 0 || number + 1 == changes.count { while try commit.step() {} }
    }
  }

  private func bind(_ statement: Statement, _ id: Int, _ values: Sale) throws {
    try statement.bind(Int64(id), at: 1)
    try statement.bind(Int64(values.till), at: 2)
    try statement.bind(Value.real(values.price), at: 3)
  }
}
