import Changes

/// The contract of a column: whether its values arrive at the target unchanged, changed or not at all.
///
///     let id = TableSchema.Column(name: "id", declaredType: "INTEGER")
///     ColumnContract(id, of: .sqlite, to: PostgresType("bigint")).verdict   // .lossless
package struct ColumnContract: Equatable, Sendable {
  package enum Verdict: Equatable, Sendable {
    /// The target holds every value unchanged, except misfits.
    case lossless
    /// Values may change as the text describes.
    case lossy(String)
    /// The target's type cannot hold any value of the source's type.
    case refused(String)
  }

  @ByBytes package private(set) var column: String
  @ByBytes package private(set) var sourceType: String
  @ByBytes package private(set) var targetType: String
  package let verdict: Verdict
  /// The values that the target's type cannot hold; empty if there are none.
  @ByBytes package private(set) var misfits: String

  package init(column: String, sourceType: String, targetType: String, verdict: Verdict, misfits: String = "") {
    self.column = column
    self.sourceType = sourceType
    self.targetType = targetType
    self.verdict = verdict
    self.misfits = misfits
  }

  /// Creates the contract of a PostgreSQL column that is replicated to SQLite.
  package init(toSQLite column: TableSchema.Column) {
    let declared = SQLiteValue(from: column).declaredType
    self.init(
      column: column.name, sourceType: column.declaredType, targetType: declared.isEmpty ? "no type" : declared,
      verdict: .lossless)
  }

  /// Creates the contract of a column that is replicated to PostgreSQL.
  /// - Parameter original: Whether the SQLite column is an unchanged copy of a PostgreSQL column. Ignored for a
  ///   PostgreSQL source.
  package init(_ column: TableSchema.Column, of engine: Engine, to type: PostgresType, original: Bool = false) {
    let declared = column.declaredType.isEmpty ? "no type" : column.declaredType
    guard engine == .sqlite else {
      let isSame = column.declaredType == type.name
      self.init(
        column: column.name, sourceType: declared, targetType: type.name,
        verdict: isSame ? .lossless : Self.change(type), misfits: isSame ? "" : Self.misfits(type))
      return
    }
    self.init(
      column: column.name, sourceType: declared, targetType: type.name, verdict: Self.verdict(column, type, original),
      misfits: Self.misfits(type))
  }

  private static func verdict(_ column: TableSchema.Column, _ type: PostgresType, _ original: Bool) -> Verdict {
    // Values from PostgreSQL are already padded; values that an application writes to SQLite are not.
    if original, case .bpchar = type.kind { return change(type) }
    if original { return .lossless }
    let declared = column.declaredType.asciiUppercased
    let isOpen = declared.isEmpty || declared == "ANY"
    if column.affinity == "BLOB", !isOpen, type.kind != .bytea { return .refused("a blob does not fit \(type.name)") }
    if type.kind == .bytea, !isOpen, PostgresType(declaration: declared).kind != .bytea {
      return .refused("only blobs fit bytea")
    }
    if type.isCollatable {
      if isOpen || ["INTEGER", "REAL", "NUMERIC"].contains(column.affinity) {
        return .lossy("numbers become their text: 5 and '5' are one")
      }
    }
    return change(type)
  }

  /// Returns how values change when a PostgreSQL column of this type stores them.
  private static func change(_ type: PostgresType) -> Verdict {
    switch type.kind {
    case .bpchar: .lossy("padded with spaces to its length")
    case .jsonb: .lossy("order of keys, duplicate keys and spaces are not kept")
    case .money: .lossy("rounded and spelled as lc_monetary says")
    default: .lossless
    }
  }

  private static func misfits(_ type: PostgresType) -> String {
    switch type.kind {
    case .bool: "values other than 0, 1, t, f, true, false"
    case .int2, .int4, .int8, .oid: "values other than integers in the range of \(type.name)"
    case .numeric(nil): "values other than numbers"
    case .numeric(let digits?):
      "values other than numbers with \(digits.scale) digits after the point, \(digits.precision) in all"
    case .float4: "values other than numbers that 32 bits hold exactly"
    case .float8: "values other than numbers; integers that 64 bits of floating point do not hold exactly"
    case .text: "blobs; text with NUL or that is not UTF-8"
    case .varchar(let length), .bpchar(let length):
      "blobs; text with NUL or that is not UTF-8" + (length.map { "; more than \($0) characters" } ?? "")
    case .bytea: "values other than blobs"
    case .date: "values other than dates such as 2024-05-31"
    case .time, .timetz: "values other than times such as 09:30:00"
    case .timestamp(let digits), .timestamptz(let digits):
      "values other than times such as 2024-05-31 09:30:00, with at most \(digits) digits after the seconds"
    case .uuid: "values other than UUIDs; capitals and other hyphens become PostgreSQL's spelling"
    case .json, .jsonb: "values other than JSON"
    case .interval, .xml, .money, .bit, .varbit, .inet, .array, .range, .enumeration, .record, .other:
      "values that PostgreSQL does not read as \(type.name)"
    }
  }
}
