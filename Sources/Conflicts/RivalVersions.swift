/// Versions of a row of which some did not know each other.
struct RivalVersions {
  /// Without deletes, and what they end; by rising stamps.
  let living: [RowVersion]
  private let all: [RowVersion]
  private let columnCount: Int
  private let code: RuleCode

  init(_ living: [RowVersion], all: [RowVersion], columnCount: Int, _ code: RuleCode) {
    (self.living, self.all, self.columnCount, self.code) = (living, all, columnCount, code)
  }

  /// The row under a rule of rows; nil: there is none.
  func row(_ rule: ConflictRules.Rule) throws -> RowVersion.Row? {
    switch rule {
    case .sql, .function: try folded(living.heads, rule)
    default: Self.winner(living.heads, rule)?.row(columnCount, among: all)
    }
  }

  /// `heads` by rising stamps.
  static func winner(_ heads: [RowVersion], _ rule: ConflictRules.Rule) -> RowVersion? {
    switch rule {
    case .oldest: return heads.first
    case .priority(let nodes):
      func rank(_ version: RowVersion) -> Int { nodes.firstIndex { version.stamp.isOf($0) } ?? nodes.count }
      return heads.max { (-rank($0), $0.stamp) < (-rank($1), $1.stamp) }
    default: return heads.last
    }
  }

  /// What the code of a rule makes of the first two of these versions, of that and the third, and so on. `column`: of
  /// which the value is wanted.
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

  /// The row that all of the living versions came from: what the author of the first version had that not all others
  /// follow.
  ///
  /// It is the same whether the versions that all others follow are forgotten or not: whoever knew them all had the row
  /// that they come to. Nil where the last of them is an insert; values are nil where no version gives them.
  var before: RowVersion.Row? {
    let apart = all.unshared
    if let insert = living.last(where: \.isInsert), apart.contains(where: { $0.stamp == insert.stamp }) { return nil }
    let befores = apart.roots.compactMap(\.before)
    guard !befores.isEmpty else { return nil }
    return (0..<columnCount).map { column in befores.lazy.compactMap { $0[column] }.first }
  }
}
