import Changes

/// Resolves the value of one column in a conflict.
struct ColumnVersions {
  private let column: Int
  private let rivals: ConcurrentVersions
  /// The versions that wrote the column and can win, by ascending stamps.
  private let heads: [RowVersion]

  init(_ column: Int, _ rivals: ConcurrentVersions) {
    (self.column, self.rivals) = (column, rivals)
    heads = rivals.living.filter { $0.wrote(column) }.heads
  }

  /// Returns the resolved value of the column; nil if no version that can win wrote the column.
  /// - Parameter isOfRows: Whether `rule` is the table's rule for whole rows, because the column has no rule of its
  ///   own.
  func settled(_ rule: ConflictRules.Rule, isOfRows: Bool) throws -> Value? {
    guard !heads.isEmpty else { return nil }
    let values = heads.compactMap { $0.after?[column] }
    switch rule {
    case .newest, .oldest, .priority, .source, .target, .insertOnly, .stop, .ask:
      return ConcurrentVersions.winner(heads, rule)?.after?[column]
    case .max: return values.max(by: Self.isLess)
    case .min: return values.min(by: Self.isLess)
    case .average: return heads.count == 1 ? values.first : Decimal.mean(values) ?? values.last
    case .combine(let separator): return combined(values, separator)
    case .delta: return sum() ?? values.last
    case .mergeText: return merged(values) ?? values.last
    case .sql where isOfRows: return try rivals.folded(heads, rule)?[column]
    case .sql, .function: return try rivals.folded(heads, rule, column: column)?[column]
    }
  }

  private var before: Value? { rivals.before?[column] }

  private func merged(_ values: [Value]) -> Value? {
    guard var text = values.first?.textBytes else { return nil }
    let base = before?.textBytes ?? []
    for value in values.dropFirst() {
      guard let next = value.textBytes else { return nil }
      text = TextMerge.merged(base: base, text, next)
    }
    if case .exact? = values.last { return .exact(text) }
    return .text(text)
  }

  /// Returns the result of the rule `delta`. The first term is the last insert's value or, without an insert, the value
  /// before all versions. The changes of all updates are added. Nil if a value is no number.
  private func sum() -> Value? {
    let living = rivals.living
    let begin = living.last(where: \.isInsert).map { $0.after?[column] } ?? living.roots.first?.before?[column]
    guard let last = heads.last?.after?[column], var total = begin.flatMap({ Decimal(number: $0) }) else { return nil }
    for version in living {
      guard case .update(let before, let after) = version.write, let now = after[column] else { continue }
      guard let was = before[column], let from = Decimal(number: was), let to = Decimal(number: now) else { return nil }
      total = total + (to - from)
    }
    return total.value(like: last)
  }

  private func combined(_ values: [Value], _ separator: String) -> Value? {
    var parts: [[UInt8]] = []
    for value in values { if let bytes = value.textBytes, !parts.contains(bytes) { parts.append(bytes) } }
    if parts.isEmpty { return values.last }
    let text = Array(parts.joined(separator: Array(separator.utf8)))
    if case .exact? = values.last { return .exact(text) }
    return .text(text)
  }

  /// Returns whether `a` sorts before `b`: NULL, then numbers, then texts and blobs by their bytes. A text that is a
  /// number sorts as a number.
  static func isLess(_ a: Value, _ b: Value) -> Bool {
    if let x = Decimal(number: a), let y = Decimal(number: b) { return x < y }
    let (x, y) = (rank(a), rank(b))
    return x == y ? bytes(a).lexicographicallyPrecedes(bytes(b)) : x < y
  }

  private static func rank(_ value: Value) -> Int {
    if Decimal(number: value) != nil { return 1 }
    return switch value {
    case .null: 0
    case .integer, .real: 2
    case .text, .exact: 3
    case .blob: 4
    }
  }

  private static func bytes(_ value: Value) -> [UInt8] {
    switch value {
    case .text(let bytes), .exact(let bytes), .blob(let bytes): bytes
    case .real(let real): Array(String(real).utf8)
    case .null, .integer: []
    }
  }
}

extension Value {
  fileprivate var textBytes: [UInt8]? {
    switch self {
    case .text(let bytes), .exact(let bytes): bytes
    default: nil
    }
  }
}
