import Changes
import Mapping
import PostgresKit

/// Decides whether a row of the source and a row of the target are equal. PostgreSQL itself decides for some types.
final class RowVerdict {
  let table: ComparedTable
  /// The connection to a PostgreSQL target, which converts values of some types; nil for SQLite.
  private let server: PostgresConnection?
  private var given = ByteWriter()
  private var there = ByteWriter()
  private var scratch = ByteWriter()

  init(_ table: ComparedTable, server: PostgresConnection?) { (self.table, self.server) = (table, server) }

  func differing(_ source: [Value], _ target: [Value]) throws -> [Int] {
    try table.columns.indices.filter { try !isEqual($0, source[$0], target[$0]) }
  }

  func isEqual(_ place: Int, _ source: Value, _ target: Value) throws -> Bool {
    let column = table.columns[place]
    given.removeAll()
    there.removeAll()
    source.withView { column.append($0, of: .source, to: &given, scratch: &scratch) }
    target.withView { column.append($0, of: .target, to: &there, scratch: &scratch) }
    if given.bytes.elementsEqual(there.bytes) { return true }
    guard column.needsServer, let server, source != .null, case .exact(let printed) = target,
      let made = try? column.targetValue(source), case .exact(let text) = made
    else { return false }
    // Compare the texts that the type itself prints, byte by byte and never trimmed.
    let end = table.target
    do {
      let print = try server.printed(
        String(decoding: text, as: UTF8.self), as: end.column(place).castName, ofColumn: end.column(place).name,
        in: end.sqlName)
      return print?.utf8.elementsEqual(printed) ?? false
    } catch let error as PostgresError where error.isBadValue { return false }
  }

  /// Returns the differences between a source row and the target rows with its key. Surplus target rows are reported as
  /// extra.
  func differences(_ source: [Value]?, _ targets: [[Value]]) throws -> [Difference] {
    guard targets.count > 1, let source else {
      if targets.isEmpty { return try difference(source, nil).map { [$0] } ?? [] }
      return try targets.compactMap { try difference(source, $0) }
    }
    let equal = try targets.firstIndex { try differing(source, $0).isEmpty } ?? 0
    return try targets.enumerated().compactMap { index, target in
      try index == equal ? difference(source, target) : difference(nil, target)
    }
  }

  /// Returns the difference between two rows; nil if they are equal. A nil row is missing.
  func difference(_ source: [Value]?, _ target: [Value]?) throws -> Difference? {
    var difference: Difference
    switch (source, target) {
    case (nil, nil): return nil
    case (_?, nil): difference = Difference(table: table.name, kind: .missing)
    case (nil, _?): difference = Difference(table: table.name, kind: .extra)
    case (let source?, let target?):
      let places = try differing(source, target)
      if places.isEmpty { return nil }
      difference = Difference(table: table.name, kind: .different)
      difference.columns = places.map {
        .init(
          name: table.source.column($0).name, source: source[$0], target: target[$0],
          expected: try? table.columns[$0].targetValue(source[$0]))
      }
    }
    (difference.source, difference.target) = (source, target)
    let row = source ?? target ?? []
    let hasKey = !table.key.isEmpty && !table.key.contains { row[$0] == .null }
    difference.key = (hasKey ? table.key : Array(table.columns.indices)).map {
      (table.source.column($0).name, row[$0])
    }
    return difference
  }
}
