/// Resolves one row that has concurrent versions, by a rule for whole rows.
struct RivalVersions {
  /// The versions that can win, by ascending stamps (time and origin): all except deletes and versions that a delete
  /// supersedes.
  let living: [RowVersion]
  private let all: [RowVersion]
  private let columnCount: Int
  private let code: RuleCode

  init(_ living: [RowVersion], all: [RowVersion], columnCount: Int, _ code: RuleCode) {
    (self.living, self.all, self.columnCount, self.code) = (living, all, columnCount, code)
  }

  /// Returns the row that a rule for whole rows resolves to; nil if the row is to be absent.
  func row(_ rule: ConflictRules.Rule) throws -> RowVersion.Row? {
    switch rule {
    case .sql, .function: try folded(living.heads, rule)
    default: Self.winner(living.heads, rule)?.row(columnCount, among: all)
    }
  }

  /// Returns the version that a rule selects from `heads`; nil if `heads` is empty.
  /// - Parameter heads: versions of a row that are concurrent with each other, by ascending stamps (time and origin).
  static func winner(_ heads: [RowVersion], _ rule: ConflictRules.Rule) -> RowVersion? {
    switch rule {
    case .oldest: return heads.first
    case .priority(let nodes):
      func rank(_ version: RowVersion) -> Int { nodes.firstIndex { version.stamp.isOf($0) } ?? nodes.count }
      return heads.max { (-rank($0), $0.stamp) < (-rank($1), $1.stamp) }
    default: return heads.last
    }
  }

  /// Resolves a row by a rule that is written in SQL. The rule's code gets two versions at a time. For versions a, b
  /// and c, it is called as code(code(a, b), c).
  /// - Parameter column: the column to resolve; nil for the row.
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

  /// The row before its concurrent versions: their common ancestor. Nil if a concurrent version inserted the row. A
  /// value is nil if no version provides it.
  ///
  /// A version that the authors of all later versions knew is not concurrent. It does not change the result, so it can
  /// be forgotten.
  var before: RowVersion.Row? {
    let apart = all.unshared
    if let insert = living.last(where: \.isInsert), apart.contains(where: { $0.stamp == insert.stamp }) { return nil }
    let befores = apart.roots.compactMap(\.before)
    guard !befores.isEmpty else { return nil }
    return (0..<columnCount).map { column in befores.lazy.compactMap { $0[column] }.first }
  }
}
