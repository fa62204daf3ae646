import Changes

/// Converts the values of a column, at the source and at the target, into a form in which they are compared. Two values
/// have the same form only if they count as equal (``ColumnContract``). If ``needsServer`` is false, equal values
/// always have the same form.
///
///     CanonicalColumn(.init(name: "a"), of: .sqlite, to: .init(name: "a"), of: .sqlite).isSame   // true
package struct CanonicalColumn: Sendable {
  package enum Side: Sendable {
    case source
    case target
  }

  private enum Direction {
    /// Both databases have the same engine and type.
    case same
    case toSQLite
    case toPostgres
    /// Both databases are PostgreSQL, with different types.
    case retyped
  }

  /// The first byte of the form for comparison, for a value that the target cannot hold.
  private static let misfitTag: UInt8 = 9

  private let way: Direction
  /// The type of the PostgreSQL column. If both columns are PostgreSQL, the type of the target's column.
  package let type: PostgresType
  private let text: PostgresText
  private let stored: SQLiteValue
  private let affinity: String
  /// Whether -0.0 counts as 0.0, because SQLite stores no -0.0 under the affinity REAL.
  private let foldsZero: Bool
  /// Whether values are equal only if PostgreSQL prints the same text, because apply finds rows in SQLite by that text.
  private let isExactKey: Bool

  /// Creates the conversion for a source column and its target column.
  /// - Parameter isUnique: Whether the column is part of a unique key.
  /// - Parameter isKey: Whether the column is part of the key by which apply finds rows.
  package init(
    _ source: TableSchema.Column, of from: Engine, to target: TableSchema.Column, of to: Engine, isUnique: Bool = false,
    isKey: Bool = false
  ) {
    let printed = PostgresType(to == .postgres ? target : source)
    type = printed
    text = PostgresText(from: source, of: from, to: printed, isUnique: isUnique)
    stored = SQLiteValue(printed)
    affinity = (from == .sqlite ? source : target).affinity
    switch (from, to) {
    case (.sqlite, .sqlite): way = .same
    case (.postgres, .sqlite): way = .toSQLite
    case (.sqlite, .postgres): way = .toPostgres
    case (.postgres, .postgres):
      way = source.declaredType == target.declaredType && source.baseType == target.baseType ? .same : .retyped
    }
    // Under other affinities SQLite compares numbers as numbers.
    isExactKey = isKey && from == .postgres && to == .sqlite && ["TEXT", "BLOB"].contains(affinity)
    foldsZero = from == .postgres && to == .sqlite && affinity == "REAL"
  }

  /// Whether stored values are compared as they are, without a conversion.
  package var isSame: Bool { way == .same }

  /// Whether only a server can convert a text to the type, so that different bytes may be equal values.
  package var needsServer: Bool {
    guard way == .toPostgres || way == .retyped else { return false }
    switch type.kind {
    case .bool, .int2, .int4, .int8, .oid, .numeric, .float4, .float8, .text, .varchar, .bpchar, .bytea, .date, .uuid,
      .json:
      return false
    default: return true
    }
  }

  // MARK: Forms

  /// Appends the form in which a value is compared with the other database's value.
  /// - Parameter side: The database of the value.
  /// - Parameter scratch: A buffer for intermediate results.
  package func append(_ value: ColumnView, of side: Side, to form: inout ByteWriter, scratch: inout ByteWriter) {
    if case .null = value { return form.appendNull() }
    switch (way, side) {
    case (.same, _): Self.appendAsIs(value, to: &form)
    case (.toSQLite, .source), (.toPostgres, .target), (.retyped, .target):
      guard case .exact(let bytes) = value else { return Self.appendAsIs(value, to: &form) }
      appendPrinted(bytes, to: &form)
    case (.toSQLite, .target): appendStored(value, to: &form)
    case (.toPostgres, .source), (.retyped, .source): appendGiven(value, to: &form, scratch: &scratch)
    }
  }

  private static func appendAsIs(_ value: ColumnView, to form: inout ByteWriter) {
    switch value {
    case .unchanged: form.appendUnchanged()
    case .null: form.appendNull()
    case .integer(let number): form.appendInteger(number)
    case .real(let number): form.appendReal(number)
    case .text(let bytes): form.appendText(bytes)
    case .blob(let bytes): form.appendBlob(bytes)
    case .exact(let bytes): form.appendExact(bytes)
    }
  }

  /// Appends the form in which a text of this PostgreSQL type is compared.
  private func appendPrinted(_ bytes: UnsafeRawBufferPointer, to form: inout ByteWriter) {
    switch type.kind {
    case .numeric where isExactKey, .time where isExactKey, .timestamp where isExactKey, .timestamptz where isExactKey:
      form.appendText(bytes)
    case .int2, .int4, .int8, .oid:
      guard let number = DecimalText.integer(bytes) else { return form.appendText(bytes) }
      form.appendInteger(number)
    case .bool:
      guard let first = bytes.first else { return form.appendText(bytes) }
      form.appendInteger(first == UInt8(ascii: "t") || first == UInt8(ascii: "1") ? 1 : 0)
    case .float8: append(DecimalText.double(bytes), bytes, to: &form)
    case .float4: append(DecimalText.single(bytes).map(Double.init), bytes, to: &form)
    case .numeric: form.appendNumber(bytes)
    case .time, .timestamp, .timestamptz: form.appendTime(bytes, type.kind)
    case .bytea: form.appendBlob(printed: bytes)
    case .bpchar: form.appendText(bytes.withoutPadding)
    default: form.appendText(bytes)
    }
  }

  private func append(_ number: Double?, _ bytes: UnsafeRawBufferPointer, to form: inout ByteWriter) {
    guard let number, !number.isNaN else { return form.appendText(bytes) }
    form.appendReal(foldsZero && number == 0 ? 0 : number)
  }

  /// Appends the form for comparison of a value that SQLite stores for a PostgreSQL value.
  private func appendStored(_ value: ColumnView, to form: inout ByteWriter) {
    switch (type.kind, value) {
    case (.numeric, _) where isExactKey, (.time, _) where isExactKey, (.timestamp, _) where isExactKey,
      (.timestamptz, _) where isExactKey:
      Self.appendAsIs(value, to: &form)
    case (.numeric, .text(let bytes)): form.appendNumber(bytes)
    case (.numeric, .integer(let number)) where affinity != "TEXT" && affinity != "BLOB":
      form.appendNumber(String(number))
    case (.numeric, .real(let number)) where affinity != "TEXT" && affinity != "BLOB":
      form.appendNumber(number.description)
    case (.time, .text(let bytes)), (.timestamp, .text(let bytes)), (.timestamptz, .text(let bytes)):
      form.appendTime(bytes, type.kind)
    case (.bpchar, .text(let bytes)): form.appendText(bytes.withoutPadding)
    case (.float4, .real(let number)), (.float8, .real(let number)):
      form.appendReal(foldsZero && number == 0 ? 0 : number)
    default: Self.appendAsIs(value, to: &form)
    }
  }

  /// Converts a source value to the target's type, and appends the form in which the result is compared.
  private func appendGiven(_ value: ColumnView, to form: inout ByteWriter, scratch: inout ByteWriter) {
    switch (type.kind, value) {
    case (.int2, .integer(let number)), (.int4, .integer(let number)), (.int8, .integer(let number)):
      return form.appendInteger(number)
    case (.float8, .real(let number)): return form.appendReal(number)
    case (.text, .text(let bytes)), (.varchar, .text(let bytes)): return form.appendText(bytes)
    case (.bytea, .blob(let bytes)): return form.appendBlob(bytes)
    default: break
    }
    scratch.removeAll()
    do throws(Misfit) { try text.append(value, to: &scratch) } catch {
      form.append(Self.misfitTag)
      return Self.appendAsIs(value, to: &form)
    }
    appendPrinted(scratch.bytes, to: &form)
  }

  // MARK: Values at the other end

  /// Returns the value in the target's representation.
  /// - Throws: ``Misfit`` if the target cannot hold the value.
  package func targetValue(_ value: Value) throws(Misfit) -> Value {
    if value == .null { return .null }
    var written = ByteWriter(capacity: 256)
    let made = value.withView { view in
      Result { () throws(Misfit) -> Value in
        switch way {
        case .same: return value
        case .toSQLite:
          if case .exact(let bytes) = value { written.reserve(bytes.count) }
          return try stored.convert(view, scratch: &written).value ?? .null
        case .toPostgres, .retyped:
          try text.append(view, to: &written)
          return .exact(Array(written.bytes))
        }
      }
    }
    return try made.get()
  }

  /// Returns the values that a key column may have at the source if the target holds `value`, to find the source row.
  /// Empty if there are none.
  package func sourceValues(_ value: Value) -> [Value] {
    switch way {
    case .same, .retyped: return [value]
    case .toSQLite:
      // The text as PostgreSQL reads it. A text that PostgreSQL refuses cannot exist there.
      let back = PostgresText(from: .init(name: ""), of: .sqlite, to: type)
      var written = ByteWriter(capacity: 256)
      let reads = value.withView { view in
        Result { () throws(Misfit) in try back.append(view, to: &written) }
      }
      guard case .success = reads else { return [] }
      return [.exact(Array(written.bytes))]
    case .toPostgres:
      guard case .exact(let bytes) = value else { return [value] }
      return bytes.withUnsafeBytes { raw in
        var scratch = ByteWriter(capacity: max(16, raw.count))
        guard let converted = try? stored.convert(.exact(raw), scratch: &scratch).value else { return [] }
        guard case .text = converted else { return [converted] }
        // A number that no affinity has converted, or one that SQLite represents exactly.
        let number = DecimalText.integer(raw).map(Value.integer) ?? DecimalText.double(raw).map(Value.real)
        return [converted] + (number.map { [$0] } ?? [])
      }
    }
  }
}
