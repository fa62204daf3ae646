import Changes
import Mapping
import PostgresKit
import SQLiteKit

/// A test whether a column's values stay equal on their way to the target. Edge values of the column's type are
/// converted to the target's type and back. The test writes to neither database.
package struct ContractProof {
  package struct Outcome: Equatable, Sendable {
    /// The number of values that were equal after the conversion.
    package var equal = 0
    /// The number of values that the target's type does not accept.
    package var refused = 0
    /// The values that were different after the conversion, each with its new form.
    @ByBytes package var broken: [String] = []
  }

  private let server: PostgresConnection
  private let memory: Database

  package init(_ server: PostgresConnection) throws {
    self.server = server
    memory = try Database(path: ":memory:", mode: .create)
  }

  /// Tests the conversion of a column with edge values, such as the largest integer. Returns the outcome; nil if there
  /// is nothing to test.
  /// - Parameter index: The index of the column in the mapping.
  package func prove(_ mapping: TableMapping, _ index: Int) throws -> Outcome? {
    let (source, target) = (mapping.source.columns[index], mapping.target.columns[index])
    switch (mapping.source.engine, mapping.target.engine) {
    case (.postgres, .sqlite): return try fromPostgres(source, declared: target.declaredType)
    case (.sqlite, .postgres): return try fromSQLite(source, target)
    default: return nil
    }
  }

  // MARK: PostgreSQL to SQLite

  private func fromPostgres(_ column: TableSchema.Column, declared: String) throws -> Outcome? {
    let type = PostgresType(column)
    let values = EdgeValues.postgres(type)
    guard !values.isEmpty else { return nil }
    var outcome = Outcome()
    for value in values {
      guard let printed = try cast(value, to: type) else { continue }
      let bytes = Array(printed.utf8)
      do {
        let kept = try convert(.exact(bytes), SQLiteValue(from: column))
        let stored = try store(kept, declared)
        let back = try text(stored, PostgresText(from: column, of: .sqlite, to: type))
        let again = try cast(back, to: type)
        if again == printed { outcome.equal += 1 } else { outcome.broken.append("\(printed) came back as \(back)") }
      } catch let misfit as Misfit {
        outcome.broken.append("\(printed): \(misfit.reason)")
      }
    }
    return outcome
  }

  private func convert(_ value: Value, _ conversion: SQLiteValue) throws -> Value {
    guard case .exact(let bytes) = value else { return value }
    var scratch = ByteWriter(capacity: bytes.count + 64)
    return try bytes.withUnsafeBytes { raw in
      try conversion.convert(.exact(raw), scratch: &scratch).value ?? .null
    }
  }

  // MARK: SQLite to PostgreSQL

  private func fromSQLite(_ column: TableSchema.Column, _ target: TableSchema.Column) throws -> Outcome {
    let type = PostgresType(target)
    let conversion = PostgresText(from: column, of: .sqlite, to: type)
    var outcome = Outcome()
    for value in EdgeValues.sqlite(column.declaredType, of: type) {
      let value = try store(value, column.declaredType)
      guard value != .null else { continue }
      do {
        let text = try text(value, conversion)
        guard let printed = try cast(text, to: type) else {
          outcome.refused += 1
          continue
        }
        let back = try convert(.exact(Array(printed.utf8)), SQLiteValue(type))
        let stored = try store(back, column.declaredType)
        if isEqual(value, stored, text, printed, type) {
          outcome.equal += 1
        } else {
          outcome.broken.append("\(text) became \(printed)")
        }
      } catch is Misfit {
        outcome.refused += 1
      }
    }
    return outcome
  }

  /// Returns whether a value is equal after the conversion. Times may be spelled differently, and a text column may
  /// return a number as text.
  private func isEqual(_ value: Value, _ back: Value, _ text: String, _ printed: String, _ type: PostgresType) -> Bool {
    if value == back { return true }
    if case .integer(let number) = value, case .real(let real) = back { return Double(exactly: number) == real }
    switch type.kind {
    case .text, .varchar, .bool, .int2, .int4, .int8, .oid, .xml, .enumeration: return text == printed
    case .uuid: return Self.digits(text) == Self.digits(printed)
    case .numeric, .float8, .float4, .json: return Double(text) == Double(printed)
    case .date, .time, .timestamp: return Self.plain(text) == Self.plain(printed)
    case .bytea: return false
    // The server spells these types in its own way, for example paddings, zones and units, so the texts cannot be
    // compared.
    case .bpchar, .timestamptz, .timetz, .interval, .money, .bit, .varbit, .jsonb, .inet, .array, .range, .record,
      .other:
      return true
    }
  }

  private static func digits(_ uuid: String) -> [UInt8] {
    uuid.asciiLowercased.utf8.filter { ![UInt8(ascii: "-"), UInt8(ascii: "{"), UInt8(ascii: "}")].contains($0) }
  }

  /// Returns a time without trailing parts that mean zero, such as `.000`, `:00`, `+00` and `Z`.
  private static func plain(_ time: String) -> String {
    var text =
      time.contains("T") && time.first?.isNumber == true ? time.split(separator: "T").joined(separator: " ") : time
    if text.contains(".") { while text.hasSuffix("0") { text.removeLast() } }
    var isShorter = true
    while isShorter {
      isShorter = false
      for suffix in ["Z", "+00", ".", ":00", " 00"] where text.hasSuffix(suffix) {
        text.removeLast(suffix.count)
        isShorter = true
      }
    }
    return text
  }

  // MARK: Both

  private func text(_ value: Value, _ conversion: PostgresText) throws -> String {
    var writer = ByteWriter(capacity: 256)
    switch value {
    case .null: break
    case .integer(let number): try conversion.append(.integer(number), to: &writer)
    case .real(let number): try conversion.append(.real(number), to: &writer)
    case .text(let bytes): try bytes.withUnsafeBytes { try conversion.append(.text($0), to: &writer) }
    case .blob(let bytes): try bytes.withUnsafeBytes { try conversion.append(.blob($0), to: &writer) }
    case .exact(let bytes): try bytes.withUnsafeBytes { try conversion.append(.exact($0), to: &writer) }
    }
    return String(decoding: writer.bytes, as: UTF8.self)
  }

  private func store(_ value: Value, _ declared: String) throws -> Value {
    try memory.execute("DROP TABLE IF EXISTS proof")
    try memory.execute("CREATE TABLE proof(v \(declared.isEmpty ? "" : declared.quotedName))")
    try memory.run("INSERT INTO proof VALUES (?)", [value])
    return try memory.first("SELECT v FROM proof") ?? .null
  }

  private func cast(_ text: String, to type: PostgresType) throws -> String? {
    do {
      return try server.first("SELECT $1::\(type.name)", [text])
    } catch let error as PostgresError where !error.isServerGone { return nil }
  }
}
