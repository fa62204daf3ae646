import Changes
import Conflicts
import Mapping
import TestServers

@testable import Applying

// Changes of rows.
extension MemoryReplay {
  private enum Insertion { case strict, keeping, merging, replacing }

  func error(_ code: ErrorCode, _ table: MemoryTable, _ key: [Value], _ what: String) -> CairnError {
    let shown = key.map(\.shown).joined(separator: ", ")
    return CairnError(
      code, "table \(table.shape.name), row \(shown): \(what)", hint: "",
      context: cursor.rowContext(table.shape.name, key: shown, at: reader.position))
  }

  func resolvingLocalWrites(_ table: MemoryTable, _ before: Row?, _ after: Row?, _ body: () throws -> Void) throws {
    do { try body() } catch let error as CairnError where table.localWrites.areSettled && TwoWay.isOfRow(error) {
      guard try resolve(table, before: before, after: after) else { throw error }
    }
  }

  func apply(_ change: ChangeView, _ before: Row?, _ after: Row?, _ table: MemoryTable) throws {
    switch change.operation {
    case .insert: try insert(after ?? [], table)
    case .delete: try delete(before ?? [], table, isExpected: !change.flags.contains(.implied))
    case .update: try update(before ?? [], after ?? [], table)
    case .truncate:
      parked.forget(table.stateName)
      for (key, row) in table.content.rows {
        if let resolver, table.goesBothWays, try !resolver.mayRemove(row, of: table) { continue }
        try table.put(nil, key)
      }
    }
  }

  private func key(of row: Row, _ table: MemoryTable) -> [Value] { table.rowKey.map { row[$0] ?? .null } }

  private func insert(_ image: Row, _ table: MemoryTable) throws {
    let row = image.map { $0 ?? .null }
    if !early.isEmpty { try settleEarly(before: image, table) }
    try writeOrPark(row, nil, table) { try write(row, insertion(table, isCopy: false), table) }
    if !early.isEmpty { try settle(image, table) }
  }

  private func delete(_ before: Row, _ table: MemoryTable, isExpected: Bool) throws {
    if !early.isEmpty { try settleLine(to: before, table) }
    let key = key(of: before, table)
    if let there = table.content.rows[key], table.mayLackRows || isSame(there, before) {
      return try table.put(nil, key)
    }
    if table.mayLackRows || !isExpected || parked.take(key: key, of: table) != nil { return }
    throw unexpected(before, table)
  }

  private func update(_ before: Row, _ after: Row, _ table: MemoryTable) throws {
    let (old, whole) = (key(of: before, table), after.filled(from: before))
    if !early.isEmpty {
      if old != key(of: whole, table) { try settleEarly(before: whole, table) }
      if table.localWrites.areSettled, table.content.rows[old] != nil { try settleLine(to: before, table) }
    }
    if let there = table.content.rows[old], table.mayLackRows || isSame(there, before) {
      let row = zip(after, there).map { $0 ?? $1 }
      try writeOrPark(row, old, table) { try table.put(row, old) }
      if !early.isEmpty { try settle(whole, table) }
    } else if table.mayLackRows {
      if !whole.contains(nil) { try write(whole.map { $0 ?? .null }, insertion(table, isCopy: true), table) }
    } else if let held = parked.take(key: old, of: table) {
      try park(
        .init(
          table: table, values: zip(after, held.values).map { $0 ?? $1 }, position: held.position, error: held.error))
      try parked.settle(putBack)
    } else {
      let error = unexpected(before, table)
      guard error.code == .rowMissing, table.source.engine == .sqlite else { throw error }
      try early.add(
        .init(
          before: Self.image(before), after: Self.image(after), error: error, meet: resolution(table, (before, after))),
        table: table.stateName)
    }
  }

  private func isSame(_ there: [Value], _ before: Row) -> Bool {
    zip(there, before).allSatisfy { $1 == nil || $0 == $1 }
  }

  private func unexpected(_ before: Row, _ table: MemoryTable) -> CairnError {
    let key = key(of: before, table)
    return table.content.rows[key] == nil
      ? error(.rowMissing, table, key, "missing") : error(.rowDiffers, table, key, "differs")
  }

  // MARK: Insertion

  private func insertion(_ table: MemoryTable, isCopy: Bool) -> Insertion {
    let replacing: Insertion = table.isContested ? .merging : .replacing
    if isCopy, table.refreshing == .rows { return replacing }
    switch table.existing {
    case .keep: return .keeping
    case .merge: return .merging
    case .overwrite: return isCopy || table.mayHoldRows ? replacing : .strict
    }
  }

  private func write(_ row: [Value], _ insertion: Insertion, _ table: MemoryTable) throws {
    let key = table.content.key(of: row)
    let isThere = table.content.rows[key] != nil
    if isThere, insertion == .keeping { return }
    if isThere, insertion == .strict { throw MemoryDatabase.Taken() }
    if insertion == .replacing {
      for other in database.rivals(of: row, key: key, in: table.name) {
        try table.put(nil, table.content.key(of: other))
      }
    }
    try table.put(row, key)
  }

  func takeCopied(_ row: [Value], _ table: MemoryTable) throws {
    do { try write(row, insertion(table, isCopy: true), table) } catch is MemoryDatabase.Taken {
      guard table.isContested, let resolver else {
        throw error(.rowExists, table, table.content.key(of: row), "exists")
      }
      try resolver.takeCopied(row, of: table, isInPlace: table.refreshing == .rows)
    }
  }

  // MARK: Parked rows

  /// Runs a body that writes `row` instead of the row with the key `old`. If another row has the same unique value, a
  /// row of PostgreSQL is written at the end of the transaction.
  private func writeOrPark(_ row: [Value], _ old: [Value]?, _ table: MemoryTable, _ body: () throws -> Void) throws {
    do { try body() } catch is MemoryDatabase.Taken {
      let error = error(.rowExists, table, table.content.key(of: row), "exists")
      guard table.source.engine == .postgres else { throw error }
      if let old { try table.put(nil, old) }
      try park(.init(table: table, values: row, position: reader.position, error: error))
    }
  }

  private func park(_ row: ParkedRows<MemoryTable, Value>.Row) throws { try parked.add(row, settling: putBack) }

  func putBack(_ row: ParkedRows<MemoryTable, Value>.Row) -> Bool {
    let key = row.table.content.key(of: row.values)
    guard row.table.content.rows[key] == nil else { return false }
    do { try row.table.put(row.values, key) } catch { return false }
    return true
  }

  func settleParked() throws {
    try parked.settle(putBack)
    for row in parked.takeAll() {
      guard row.table.localWrites.areSettled, try resolve(row.table, before: nil, after: row.values) else {
        throw row.error
      }
    }
  }

  // MARK: Changes out of order

  private static func image(_ row: Row) -> [UInt8] {
    var image = ByteWriter(capacity: 64)
    for value in row { image.append(value) }
    return Array(image.bytes)
  }

  private func row(_ image: [UInt8]) throws -> Row { try image.withUnsafeBytes { try ImageView(bytes: $0).values() } }

  /// Applies the first update that the trail has before the row `image` itself.
  private func settle(_ image: Row, _ table: MemoryTable) throws {
    let taken = Self.image(image).withUnsafeBytes { early.take(table: table.stateName, image: $0) }
    if let taken { try update(row(taken.before), row(taken.after ?? []), table) }
  }

  private func settleEarly(before image: Row, _ table: MemoryTable) throws {
    guard table.localWrites.areSettled else { return }
    let isOfIt = try Self.image(image).withUnsafeBytes { bytes in
      try early.areOf(bytes, table: table.stateName, key: key(of: image, table)) { try keys(of: $0, table) }
    }
    if !isOfIt { try settleLine(to: image, table) }
  }

  private func settleLine(to image: Row, _ table: MemoryTable) throws {
    guard table.localWrites.areSettled else { return }
    try resolve(early.takeLine(of: table.stateName, to: key(of: image, table)) { try keys(of: $0, table) })
  }

  private func keys(of change: OutOfOrderChanges.Update, _ table: MemoryTable) throws -> (
    before: [Value], after: [Value]?
  ) {
    let before = try row(change.before)
    return (key(of: before, table), try change.after.map { key(of: try row($0).filled(from: before), table) })
  }
}
