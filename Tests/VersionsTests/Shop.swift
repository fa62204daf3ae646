import Changes
import Conflicts
import Foundation
import Trails

@testable import Versions

/// The one table of these tests. Columns: id, name, stock, note.
let items = TableSchema(
  epoch: 1, engine: .sqlite, name: "items",
  columns: [
    .init(name: "id", declaredType: "INTEGER", keyOrdinal: 1), .init(name: "name"),
    .init(name: "stock"),
    .init(name: "note"),
  ])

func item(_ id: Int64, _ name: String, _ stock: Int64, _ note: String = "") -> [Value?] {
  [.integer(id), .text(name), .integer(stock), .text(note)]
}

func rowName(_ id: Int64) -> RowName { RowName(table: "items", key: [.integer(id)]) }

/// Which rows a change touches, as an apply would say it.
func rowNames(_ schema: TableSchema, _ change: ChangeView) throws -> ChangedRows {
  func name(_ image: ImageView?) throws -> RowName? {
    guard let values = try image?.values() else { return nil }
    let key = schema.key.compactMap { values[$0] }
    return key.count == schema.key.count ? RowName(table: schema.name, key: key) : nil
  }
  let (before, after) = (try name(change.before), try name(change.after))
  return before == after ? ChangedRows(before) : ChangedRows(before, after)
}

extension TrailWriter {
  /// A change of `items`; nil: not there.
  func change(
    _ before: [Value?]?, _ after: [Value?]?, _ operation: Changes.Operation? = nil,
    schema: TableSchema = items
  )
    throws
  {
    let id = try schemaID(schema, token: schema.epoch)
    var payload = ByteWriter()
    payload.append(
      (operation ?? (before == nil ? .insert : after == nil ? .delete : .update)).rawValue)
    var flags: ChangeFlags = []
    if before != nil { flags.insert(.before) }
    if after != nil { flags.insert(.after) }
    payload.append(flags.rawValue)
    payload.appendVarint(id)
    if let before { payload.appendImage(before) }
    if let after { payload.appendImage(after) }
    try append(kind: RecordKind.change, payload.bytes)
  }

  func progress(_ position: [UInt8]) throws {
    var payload = ByteWriter()
    payload.appendCounted(position)
    payload.appendZigzag(0)
    try append(kind: RecordKind.progress, payload.bytes)
  }
}
