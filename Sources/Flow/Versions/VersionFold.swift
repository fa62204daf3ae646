import Changes

/// The net change of one transaction to one row, computed from its single changes.
///
///     var fold = VersionFold(first, schema)
///     fold.add(second, schema)   // before: that of the first change; after: that of the second
package struct VersionFold {
  /// One change of one row. `before` or `after` is nil if the row did not exist then.
  package struct Step {
    var before: [Value?]?
    var after: [Value?]?

    /// Returns the changes of `row` in a change record. An update of the key counts as a delete and an insert.
    /// - Parameter names: The row names of the record. If the record alters the key, the old row comes first.
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

  /// The table definition that names the columns of `before` and `after`.
  package private(set) var schema: TableSchema
  package private(set) var before: [Value?]?
  package private(set) var after: [Value?]?
  /// The old row of an update, if its insert has not been seen and may follow; nil otherwise. `isFirst` is true if no
  /// other change of the row preceded the update.
  private var early: (row: [Value?], isFirst: Bool)?

  package init(_ step: Step, _ schema: TableSchema) {
    self.schema = schema
    (before, after) = (step.before, step.after)
    if let row = step.before, step.after != nil { early = (row, true) }
  }

  /// Returns whether `step` changes this row, and not another row with the same hash. Also returns true if `schema` has
  /// other key columns than this value's schema.
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
  func append(to writer: inout ByteWriter) {
    writer.append((before == nil ? 0 : 1) | (after == nil ? 0 : 2))
    for row in [before, after] { if let row { writer.appendImage(row) } }
  }

  /// Decodes a change. Throws ``DecodingError`` for invalid bytes.
  init(from reader: inout ByteReader) throws {
    let flags = try reader.readByte()
    if flags & 1 != 0 { before = try reader.readImage().values() }
    if flags & 2 != 0 { after = try reader.readImage().values() }
  }
}

extension VersionFold {
  package var byteCount: Int {
    func count(_ row: [Value?]?) -> Int { row?.reduce(32) { $0 + ($1?.memoryBytes ?? 16) } ?? 0 }
    return 100 + count(before) + count(after) + (early.map { count($0.row) } ?? 0)
  }

  /// Encodes this net change, without its table definition.
  package func append(to writer: inout ByteWriter) {
    var flags: UInt8 = 0
    if before != nil { flags |= 1 }
    if after != nil { flags |= 2 }
    if let early { flags |= early.isFirst ? 12 : 4 }
    writer.append(flags)
    for row in [before, after, early?.row] { if let row { writer.appendImage(row) } }
  }

  /// Decodes a net change. Throws ``DecodingError`` for invalid bytes.
  package init(from reader: inout ByteReader, _ schema: TableSchema) throws {
    self.schema = schema
    let flags = try reader.readByte()
    if flags & 1 != 0 { before = try reader.readImage().values() }
    if flags & 2 != 0 { after = try reader.readImage().values() }
    if flags & 4 != 0 { early = (try reader.readImage().values(), flags & 8 != 0) }
  }
}
