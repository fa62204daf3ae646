import Changes

/// The inverse of one transaction, as a value: the rows that it wrote, what later transactions wrote to them, and the
/// steps that lead back. A plan needs no database.
///
///     var plan = UndoPlan()
///     plan.note(.update, schema, before: old, after: new)      // the changes of the transaction, in its order
///     plan.noteLater(.update, schema, before: new, after: newer, by: writer)
///     plan.refusals(isForced: false)                           // the columns that `writer` wrote as well
package struct UndoPlan: Sendable {
  /// A row that the transaction wrote, in three states. A state is nil if the table did not have the row, and a value
  /// is nil if the trail does not give it.
  package struct Row: Sendable {
    package let table: Int
    package internal(set) var before: [Value?]?
    package internal(set) var after: [Value?]?
    /// The row as the trail has it last.
    package internal(set) var latest: [Value?]?
    /// The last later transaction that wrote each column.
    var writers: [Int: UndoWriter] = [:]
    /// The last later transaction that deleted the row, or inserted another row with its key.
    var replaced: (by: UndoWriter, isDeleted: Bool)?
    /// Whether another row of the transaction has the key of this one, which it deleted.
    var isReused = false

    /// The columns that the transaction changed in a row that it neither inserted nor deleted.
    var changed: [Int] {
      guard let before, let after else { return [] }
      return before.indices.filter { before[$0] != after[$0] }
    }

    /// Sets values that only a later change gave.
    mutating func fill(_ image: [Value?]) {
      for (column, value) in image.enumerated() where after?[column] == nil {
        // The transaction has not written the column yet, as it would be known otherwise.
        after?[column] = value
        latest?[column] = value
        if before != nil { before?[column] = value }
      }
    }

    /// Whether the transaction changed nothing in the end.
    var isSame: Bool { before == nil ? after == nil : after != nil && changed.isEmpty }

    /// Whether the row is gone, so that a forced undo leaves it out.
    var isGone: Bool { after != nil && latest == nil }
  }

  /// A change that undoes a change of the transaction.
  package struct Step: Sendable {
    package enum Kind: Sendable {
      /// An insert of this whole row.
      case insert([Value])
      case delete
      /// An update of these columns.
      case update([Int: Value])
    }
    package let row: Int
    package let kind: Kind
  }

  package private(set) var tables: [TableSchema] = []
  package private(set) var rows: [Row] = []
  /// The number of the transaction's changes.
  package private(set) var count = 0
  private var forward: [Step] = []
  private var unknown: [UndoRefusal] = []
  private var numbers: [NameKey: Int] = [:]
  private var live: [Identity: [Int]] = [:]
  private var dead: [Identity: [Int]] = [:]

  package init() {}

  /// The steps that undo the transaction, without those of rows that it left as they were.
  package var steps: [Step] {
    forward.reversed().compactMap { step in
      let row = rows[step.row]
      if row.isSame { return nil }
      guard case .update(let set) = step.kind, row.before != nil, row.after != nil else { return step }
      // A value that the transaction changed and put back is none of its changes: a later write of it stays.
      let kept = set.filter { row.writers[$0.key] == nil || row.changed.contains($0.key) }
      return kept.isEmpty ? nil : Step(row: step.row, kind: .update(kept))
    }
  }

  /// The rows that an undo writes.
  ///
  /// - Parameter isForced: Whether rows that are gone since are left out, and not refused.
  package func written(isForced: Bool) -> [Int] {
    rows.indices.filter { !rows[$0].isSame && !(isForced && rows[$0].isGone) }
  }

  /// The reasons why the transaction cannot be undone, in the order of its rows.
  ///
  /// - Parameter isForced: Whether the operator wants later writes to be overwritten.
  package func refusals(isForced: Bool) -> [UndoRefusal] {
    if isForced { return unknown }
    return unknown + rows.flatMap { $0.isSame ? [] : refusals(of: $0) }
  }

  private func refusals(of row: Row) -> [UndoRefusal] {
    if let (writer, isDeleted) = row.replaced {
      return [refusal(row, isDeleted ? .deleted(writer) : .inserted(writer))]
    }
    let columns = row.before == nil ? Array(tables[row.table].columns.indices) : row.changed
    return columns.compactMap { column in
      row.writers[column].map { refusal(row, .written($0), column: column) }
    }
  }

  /// Returns a refusal that names a row by its last known key.
  func refusal(_ row: Row, _ reason: UndoRefusal.Reason, column: Int? = nil) -> UndoRefusal {
    let schema = tables[row.table]
    return UndoRefusal(
      table: schema.fullName, key: Self.shownKey(row.latest ?? row.after ?? row.before ?? [], schema),
      column: column.map { schema.columns[$0].name }, reason: reason)
  }

  /// Returns the key of a row for a message, such as `id = 7`.
  package static func shownKey(_ values: [Value?], _ schema: TableSchema) -> String {
    let key = schema.key.isEmpty ? Array(schema.columns.indices) : schema.key
    return key.compactMap { place in
      guard place < values.count else { return nil }
      return "\(schema.columns[place].name) = \(values[place]?.shown(max: 40) ?? "?")"
    }.joined(separator: ", ").oneLine
  }

  // MARK: The transaction

  /// Takes the next change of the transaction.
  package mutating func note(
    _ operation: Changes.Operation, _ schema: TableSchema, before: [Value?]?, after: [Value?]?
  ) {
    count += 1
    let table = number(of: schema)
    guard operation != .truncate else { return refuse(schema, .truncated) }
    for image in [before, after].compactMap(\.self) where image.count != schema.columns.count {
      return refuse(schema, .reshaped(nil))
    }
    switch operation {
    case .insert: noteInsert(table, after ?? [])
    case .delete: noteDelete(table, before ?? [])
    default: noteUpdate(table, before, after ?? [])
    }
  }

  /// Takes a record of the transaction that has no inverse, such as a schema change or a copy of a table.
  package mutating func refuse(_ schema: TableSchema?, _ reason: UndoRefusal.Reason) {
    unknown.append(UndoRefusal(table: schema?.fullName ?? "", key: nil, column: nil, reason: reason))
  }

  private mutating func noteInsert(_ table: Int, _ after: [Value?]) {
    guard !after.isEmpty else { return lacks(table, after, column: nil) }
    guard let gap = firstGap(after) else {
      rows.append(Row(table: table, before: nil, after: after, latest: after))
      forward.append(Step(row: rows.count - 1, kind: .delete))
      return occupy(rows.count - 1, after)
    }
    lacks(table, after, column: gap)
  }

  private mutating func noteDelete(_ table: Int, _ before: [Value?]) {
    let known = take(table, before)
    if let known { rows[known].fill(before) }
    let image = known.flatMap { rows[$0].after } ?? before
    guard !image.isEmpty, firstGap(image) == nil else {
      return lacks(table, image, column: firstGap(image))
    }
    let row = known ?? rows.count
    if known == nil { rows.append(Row(table: table, before: image, after: nil, latest: nil)) }
    (rows[row].after, rows[row].latest) = (nil, nil)
    forward.append(Step(row: row, kind: .insert(image.compactMap(\.self))))
    // The row also had another key, if the transaction moved it before it deleted it.
    let identities = [image, rows[row].before].compactMap { $0.flatMap { Identity(table, tables[table], $0) } }
    for identity in Set(identities) where !identity.isWhole { dead[identity, default: []].append(row) }
  }

  private mutating func noteUpdate(_ table: Int, _ before: [Value?]?, _ after: [Value?]) {
    let width = tables[table].columns.count
    guard after.count == width else { return lacks(table, after, column: nil) }
    var old = before ?? Array(repeating: nil, count: width)
    // A row without an image before kept its key.
    for place in tables[table].key where old[place] == nil { old[place] = after[place] }
    let row: Int
    if let known = take(table, old) {
      rows[known].fill(old)
      row = known
      old = rows[known].after ?? old
    } else {
      rows.append(Row(table: table, before: old, after: old, latest: old))
      row = rows.count - 1
    }
    if let gap = after.indices.first(where: { after[$0] != nil && old[$0] == nil }) {
      return lacks(table, after, column: gap)
    }
    var (now, set) = (old, [Int: Value]())
    for (column, value) in after.enumerated() {
      guard let value, let was = old[column], was != value else { continue }
      set[column] = was
      now[column] = value
    }
    guard Identity(table, tables[table], now) != nil else { return lacks(table, now, column: firstGap(now)) }
    (rows[row].after, rows[row].latest) = (now, now)
    occupy(row, now)
    if !set.isEmpty { forward.append(Step(row: row, kind: .update(set))) }
  }

  private mutating func lacks(_ table: Int, _ image: [Value?], column: Int?) {
    let schema = tables[table]
    unknown.append(
      UndoRefusal(
        table: schema.fullName, key: Self.shownKey(image, schema), column: column.map { schema.columns[$0].name },
        reason: .unknown))
  }

  private func firstGap(_ image: [Value?]) -> Int? { image.firstIndex { $0 == nil } }

  // MARK: Later transactions

  /// Whether the transaction wrote to the table.
  package func includes(_ schema: TableSchema) -> Bool { numbers[schema.plainName.nameKey] != nil }

  /// Takes a change that a later transaction made to any row of the transaction's tables.
  package mutating func noteLater(
    _ operation: Changes.Operation, _ schema: TableSchema, before: [Value?]?, after: [Value?]?, by writer: UndoWriter
  ) {
    guard let table = numbers[schema.plainName.nameKey] else { return }
    guard schema.hasShape(of: tables[table]) else { return refuse(schema, .reshaped(writer)) }
    switch operation {
    case .truncate:
      for row in rows.indices where rows[row].table == table && rows[row].latest != nil { remove(row, writer) }
      live = live.filter { $0.key.table != table }
    case .delete:
      if let row = take(table, before ?? []) { remove(row, writer) }
    case .insert: arrive(table, after ?? [], writer)
    case .update:
      guard let after else { return }
      var old = before ?? Array(repeating: nil, count: after.count)
      for place in schema.key where old[place] == nil { old[place] = after[place] }
      guard let row = take(table, old) else { return arrive(table, zip(old, after).map { $1 ?? $0 }, writer) }
      for (column, value) in after.enumerated() {
        guard let value, value != old[column] ?? rows[row].latest?[column] else { continue }
        rows[row].latest?[column] = value
        rows[row].writers[column] = writer
      }
      if let now = rows[row].latest {
        // The update may have freed the key of the row for another one, and may have taken that of a deleted row.
        arrive(table, now, writer)
        enter(row, now)
      }
    }
  }

  /// Takes a schema change of a table by a later transaction.
  package mutating func noteReshaped(_ schema: TableSchema, by writer: UndoWriter) {
    if includes(schema) { refuse(schema, .reshaped(writer)) }
  }

  private mutating func remove(_ row: Int, _ writer: UndoWriter) {
    if let latest = rows[row].latest, let identity = Identity(rows[row].table, tables[rows[row].table], latest),
      !identity.isWhole
    {
      dead[identity, default: []].append(row)
    }
    rows[row].latest = nil
    rows[row].replaced = (writer, true)
  }

  /// Notes a row that appears under the key of rows that are gone.
  private mutating func arrive(_ table: Int, _ image: [Value?], _ writer: UndoWriter) {
    guard let identity = Identity(table, tables[table], image), let gone = dead.removeValue(forKey: identity) else {
      return
    }
    for row in gone where rows[row].latest == nil {
      rows[row].latest = image
      rows[row].replaced = (writer, false)
      enter(row, image)
    }
  }

  // MARK: Identities

  private mutating func number(of schema: TableSchema) -> Int {
    if let known = numbers[schema.plainName.nameKey] {
      if !schema.hasShape(of: tables[known]) { refuse(schema, .reshaped(nil)) }
      return known
    }
    tables.append(schema)
    numbers[schema.plainName.nameKey] = tables.count - 1
    return tables.count - 1
  }

  /// Enters a row of the transaction, also under the key of a row that the transaction deleted.
  private mutating func occupy(_ row: Int, _ image: [Value?]) {
    enter(row, image)
    guard let identity = Identity(rows[row].table, tables[rows[row].table], image) else { return }
    for other in dead.removeValue(forKey: identity) ?? [] { rows[other].isReused = true }
  }

  private mutating func enter(_ row: Int, _ image: [Value?]) {
    guard let identity = Identity(rows[row].table, tables[rows[row].table], image) else { return }
    live[identity, default: []].append(row)
  }

  /// Removes a row from the rows that are there, and returns it.
  private mutating func take(_ table: Int, _ image: [Value?]) -> Int? {
    guard let identity = Identity(table, tables[table], image) else { return nil }
    let row = live[identity]?.popLast()
    if live[identity]?.isEmpty == true { live[identity] = nil }
    return row
  }
}

/// The key of a row in a plan: the values of its key, or all its values if it has no usable key.
private struct Identity: Hashable {
  let table: Int
  let values: [Value]
  let isWhole: Bool

  /// Returns nil if a value is not given.
  init?(_ table: Int, _ schema: TableSchema, _ image: [Value?]) {
    self.table = table
    guard image.count == schema.columns.count else { return nil }
    isWhole = schema.isWholeRow(image)
    let values = (isWhole ? Array(image.indices) : schema.key).compactMap { image[$0] }
    guard values.count == (isWhole ? image.count : schema.key.count) else { return nil }
    self.values = values
  }
}

extension TableSchema {
  /// Whether all values together identify this row: the table has no key, or the row has NULL in it.
  func isWholeRow(_ image: [Value?]) -> Bool {
    key.isEmpty || flags.contains(.wholeRow) || key.contains { image[$0] == .some(.null) }
  }
}
