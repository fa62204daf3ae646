import Changes

/// The net change that one transaction made to one row, computed from its changes: the row before and after the
/// transaction.
package struct VersionFold {
  /// One change of one row: the row before and after it; nil if the row did not exist then.
  package struct Step {
    var before: [Value?]?
    var after: [Value?]?

    /// Returns the changes of `row` within a change record: usually one. There are two, a delete and an insert, if the
    /// record alters the key and both keys have the same name (hash). `names` has the rows of the record, the old key
    /// first.
    package static func all(
      _ change: ChangeView, _ schema: TableSchema, _ names: ChangedRows, _ row: RowName
    ) throws -> [Step] {
      var before = try change.before?.values()
      var after = try change.after?.values()
      if let before, let new = after { after = zip(before, new).map { $1 ?? $0 } }
      if change.operation == .update, before == nil {
        // The trail does not have the old row, but an update shows that it existed.
        before = after?.enumerated().map { schema.key.contains($0.offset) ? $0.element : nil }
      }
      guard names.count > 1 else { return [Step(before: before, after: after)] }
      var steps: [Step] = []
      if names[0] == row { steps.append(Step(before: before, after: nil)) }
      if names[1] == row { steps.append(Step(before: nil, after: after)) }
      return steps
    }
  }

  /// The table definition, with the columns of the rows `before` and `after`.
  package private(set) var schema: TableSchema
  package private(set) var before: [Value?]?
  package private(set) var after: [Value?]?
  /// The old row of an update that came while no row was known; nil if there was none. In the journal, an update may
  /// come before the insert of its old row. `isFirst`: the update is the transaction's first change of the row.
  private var early: (row: [Value?], isFirst: Bool)?

  package init(_ step: Step, _ schema: TableSchema) {
    self.schema = schema
    (before, after) = (step.before, step.after)
    if let row = step.before, step.after != nil { early = (row, true) }
  }

  /// Returns whether `step` changes this row, and not another row with the same name (hash): their keys must be equal.
  /// Also returns true if the keys cannot be compared, because the two table definitions have different key columns.
  package func isSameRow(_ step: Step, _ schema: TableSchema) -> Bool {
    guard let row = after ?? before, let other = step.before ?? step.after else { return false }
    let names = Self.key(self.schema)
    guard names == Self.key(schema) else { return true }
    return names.allSatisfy { name in
      Self.value(row, name, self.schema) == Self.value(other, name, schema)
    }
  }

  package mutating func add(_ step: Step, _ schema: TableSchema) {
    if schema != self.schema {
      (before, after) = (
        before.map { reshaped($0, to: schema) }, after.map { reshaped($0, to: schema) }
      )
      if let was = early { early = (reshaped(was.row, to: schema), was.isFirst) }
      self.schema = schema
    }
    // An earlier update has already brought this row.
    if let was = early, after != nil, let row = step.after, row == was.row, step.before == nil || step.before != after {
      early = step.before.map { ($0, was.isFirst) }
      if was.isFirst { before = step.before }
      return
    }
    if after == nil, let row = step.before, step.after != nil { early = (row, false) }
    switch (after, step.before) {
    case (nil, _): after = step.after
    case (let row?, _): after = step.after.map { new in zip(row, new).map { $1 ?? $0 } }
    }
  }

  /// Returns a row with the columns of another table definition, matched by name; nil for columns that the row lacks.
  private func reshaped(_ row: [Value?], to other: TableSchema) -> [Value?] {
    other.columns.map { Self.value(row, $0.name, schema) }
  }

  private static func key(_ schema: TableSchema) -> [String] {
    schema.key.map { schema.columns[$0].name }
  }

  private static func value(_ row: [Value?], _ column: String, _ schema: TableSchema) -> Value? {
    guard let index = schema.columns.firstIndex(where: { $0.name.hasSameBytes(as: column) }), index < row.count
    else { return nil }
    return row[index]
  }
}

// MARK: - Bytes

extension VersionFold.Step {
  /// Appends the change in encoded form, without its schema.
  func append(to writer: inout ByteWriter) {
    writer.append((before == nil ? 0 : 1) | (after == nil ? 0 : 2))
    for row in [before, after] { if let row { writer.appendImage(row) } }
  }

  /// Decodes a change from the bytes that ``append(to:)`` wrote. Throws ``DecodingError`` for other bytes.
  init(from reader: inout ByteReader) throws {
    let flags = try reader.readByte()
    if flags & 1 != 0 { before = try reader.readImage().values() }
    if flags & 2 != 0 { after = try reader.readImage().values() }
  }
}

extension VersionFold {
  /// The approximate number of bytes that this net change takes in memory.
  package var byteCount: Int {
    func count(_ row: [Value?]?) -> Int { row?.reduce(32) { $0 + ($1?.byteCount ?? 16) } ?? 0 }
    return 100 + count(before) + count(after) + (early.map { count($0.row) } ?? 0)
  }

  /// Appends this net change in encoded form, without its table definition.
  package func append(to writer: inout ByteWriter) {
    var flags: UInt8 = 0
    if before != nil { flags |= 1 }
    if after != nil { flags |= 2 }
    if let early { flags |= early.isFirst ? 12 : 4 }
    writer.append(flags)
    for row in [before, after, early?.row] { if let row { writer.appendImage(row) } }
  }

  /// Decodes a net change from the bytes that ``append(to:)`` wrote. Throws ``DecodingError`` for other bytes.
  package init(from reader: inout ByteReader, _ schema: TableSchema) throws {
    self.schema = schema
    let flags = try reader.readByte()
    if flags & 1 != 0 { before = try reader.readImage().values() }
    if flags & 2 != 0 { after = try reader.readImage().values() }
    if flags & 4 != 0 { early = (try reader.readImage().values(), flags & 8 != 0) }
  }
}

extension Value {
  /// The approximate number of bytes that the value takes in memory.
  package var byteCount: Int {
    switch self {
    case .text(let bytes), .exact(let bytes), .blob(let bytes): 64 + bytes.count
    default: 16
    }
  }
}
