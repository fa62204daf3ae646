/// Resolves a row with concurrent versions, by a rule for whole rows.
struct ConcurrentVersions {
  /// The versions that can win, by ascending stamps. Deletes, and versions that a delete replaces, are left out.
  let living: [RowVersion]
  private let all: [RowVersion]
  private let columnCount: Int
  private let code: RuleCode

  init(_ living: [RowVersion], all: [RowVersion], columnCount: Int, _ code: RuleCode) {
    (self.living, self.all, self.columnCount, self.code) = (living, all, columnCount, code)
  }

  /// Returns the resolved row; nil for a delete.
  func row(_ rule: ConflictRules.Rule) throws -> RowVersion.Row? {
    switch rule {
    case .sql, .function: try folded(living.heads, rule)
    default: Self.winner(living.heads, rule)?.row(columnCount, among: all)
    }
  }

  /// Returns the version that a rule selects; nil if `heads` is empty.
  /// - Parameter heads: Concurrent versions of a row, by ascending stamps.
  static func winner(_ heads: [RowVersion], _ rule: ConflictRules.Rule) -> RowVersion? {
    switch rule {
    case .oldest: return heads.first
    case .priority(let nodes):
      func rank(_ version: RowVersion) -> Int { nodes.firstIndex { version.stamp.isOf($0) } ?? nodes.count }
      return heads.max { (-rank($0), $0.stamp) < (-rank($1), $1.stamp) }
    default: return heads.last
    }
  }

  /// Returns the row as resolved by a rule that is written in SQL. The SQL combines two versions at a time, in the
  /// order of their stamps. Nil if all of `heads` are deletes.
  /// - Parameter column: The column to resolve; nil for the whole row.
  func folded(_ heads: [RowVersion], _ rule: ConflictRules.Rule, column: Int? = nil) throws -> RowVersion.Row? {
    let rows = heads.compactMap { $0.row(columnCount, among: all) }
    guard var settled = rows.first else { return nil }
    for next in rows.dropFirst() {
      settled = try made(MetRows(local: settled, incoming: next, before: before, column: column), rule)
    }
    return settled
  }

  private func made(_ rows: MetRows, _ rule: ConflictRules.Rule) throws -> RowVersion.Row {
    switch rule {
    case .function(let name): return try code.function(name, rows) ?? rows.incoming
    case .sql(let text):
      let value = try code.expression(text, rows)
      guard let column = rows.column else { return value == .integer(1) ? rows.incoming : rows.local }
      var row = rows.incoming
      if let value { row[column] = value }
      return row
    default: return rows.incoming
    }
  }

  /// The row before its concurrent versions; nil if a concurrent version inserted the row. A value is nil if no version
  /// has it.
  var before: RowVersion.Row? {
    let apart = all.unshared
    if let insert = living.last(where: \.isInsert), apart.contains(where: { $0.stamp == insert.stamp }) { return nil }
    let befores = apart.roots.compactMap(\.before)
    guard !befores.isEmpty else { return nil }
    return (0..<columnCount).map { column in befores.lazy.compactMap { $0[column] }.first }
  }
}
