import Changes

/// What living versions of a row made of one column.
struct ColumnVersions {
  private let column: Int
  private let living: [RowVersion]
  private let all: [RowVersion]
  /// Those whose values nobody replaced who knew them, by rising stamps.
  private let heads: [RowVersion]

  init(_ column: Int, _ living: [RowVersion], all: [RowVersion]) {
    (self.column, self.living, self.all) = (column, living, all)
    heads = living.filter { $0.wrote(column) }.heads
  }

  /// Nil where no version wrote the column.
  func settled(_ rule: ConflictRules.Rule) -> Value? {
    guard !heads.isEmpty else { return nil }
    let values = heads.compactMap { $0.after?[column] }
    switch rule {
    case .newest, .oldest, .priority: return Settlement.winner(heads, rule)?.after?[column]
    case .max: return values.max(by: Self.isLess)
    case .min: return values.min(by: Self.isLess)
    case .average: return heads.count == 1 ? values.first : Decimal.mean(values) ?? values.last
    case .combine(let separator): return combined(values, separator)
    case .delta: return sum() ?? values.last
    }
  }

  /// The value before all versions, or that of the row which was inserted last, and what each update added; nil where a
  /// value is no number.
  private func sum() -> Value? {
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
    for case .text(let bytes) in values where !parts.contains(bytes) { parts.append(bytes) }
    if parts.isEmpty { return values.last }
    return .text(Array(parts.joined(separator: Array(separator.utf8))))
  }

  /// NULL, then numbers, then texts and blobs by their bytes.
  static func isLess(_ a: Value, _ b: Value) -> Bool {
    if let x = Decimal(a), let y = Decimal(b) { return x < y }
    switch (a, b) {
    case (.text(let x), .text(let y)), (.blob(let x), .blob(let y)): return x.lexicographicallyPrecedes(y)
    case (.exact(let x), .exact(let y)) where rank(a) == rank(b): return x.lexicographicallyPrecedes(y)
    default: return rank(a) < rank(b)
    }
  }

  private static func rank(_ value: Value) -> Int {
    if Decimal(value) != nil { return 1 }
    return switch value {
    case .null: 0
    case .integer, .real, .exact: 2
    case .text: 3
    case .blob: 4
    }
  }
}
