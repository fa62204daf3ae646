import Changes
import SystemKit
import Trails

/// A trail of inserted sales, as a capture from SQLite writes it: 100 rows a transaction.
final class SalesTrail {
  static let name = TrailName(origin: "till", name: "sales")

  private let folder: String
  private let writer: TrailWriter
  private var record = ByteWriter()
  private var image = ByteWriter()
  private var id = 0

  /// Creates a trail. `state` is the parent of the trail's folder.
  init(state: String) throws {
    folder = "\(state)/\(Self.name)"
    writer = try TrailWriter.open(folder: folder, name: Self.name, now: { Clock.system.microseconds() })
  }

  /// Appends one durable transaction.
  func commit(rows: Int) throws {
    try append(rows: rows)
    try writer.sync()
  }

  /// Writes until the segments' files have this many bytes, and syncs.
  func fill(bytes: UInt64) throws {
    while try Trail.info(folder: folder).bytes < bytes {
      for _ in 0..<500 { try append(rows: 100) }
      try writer.sync()
    }
  }

  func close() throws { try writer.close() }

  private func append(rows: Int) throws {
    _ = try writer.begin(TransactionHeader(commitTime: Clock.system.microseconds()))
    let schema = try writer.schemaID(Self.schema, token: 1)
    for _ in 0..<rows {
      id += 1
      let sale = Sale(id: id)
      image.removeAll()
      image.appendInteger(Int64(sale.id))
      image.appendInteger(Int64(sale.till))
      image.appendReal(sale.price)
      sale.item.withUnsafeBytes { image.appendText($0) }
      var time: [UInt8] = []
      sale.appendTime(to: &time)
      time.withUnsafeBytes { image.appendText($0) }
      record.removeAll()
      record.append(Operation.insert.rawValue)
      record.append(ChangeFlags.after.rawValue)
      record.appendVarint(schema)
      record.appendCounted(image.bytes)
      try writer.append(kind: RecordKind.change, record.bytes)
    }
    try writer.commit()
  }

  private static let schema = TableSchema(
    epoch: 1, engine: .sqlite, name: "sale",
    columns: [
      .init(name: "id", declaredType: "INTEGER", keyOrdinal: 1), .init(name: "till", declaredType: "INTEGER"),
      .init(name: "price", declaredType: "REAL"), .init(name: "item", declaredType: "TEXT"),
      .init(name: "sold_at", declaredType: "TEXT"),
    ])
}
