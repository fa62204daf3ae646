import Changes

/// What a row is to be, by all the versions of it that are known. A function of their set: no order, no I/O, no clock.
package struct Settlement: Equatable, Sendable {
  /// What an expression (`sql:`) makes of two values of a column, the earlier one and the later one, and of what it was
  /// before them (nil: not known). Nil: nothing, and the later one stands.
  package typealias Evaluate = (_ expression: String, _ local: Value, _ incoming: Value, _ before: Value?) throws ->
    Value?

  /// Nil: the row is not to be there. A column that is nil stays as it is at the target, as no version gives it.
  package private(set) var row: RowVersion.Row?
  /// Nobody who wrote it may change what was there: the row stays as it is at its owner, whatever `row` is.
  package private(set) var isKept = false

  /// `columnCount`: of the table. `rules`: as of ``ConflictRules/between(source:target:)``.
  package init(_ history: RowHistory, _ rules: ConflictRules, columnCount: Int, evaluate: Evaluate) rethrows {
    var versions = history.versions
    if let owner = rules.owner {
      versions = Self.allowed(versions, owner)
      if versions.isEmpty {
        isKept = true
        row = history.versions.first.flatMap(\.before)
        return
      }
    }
    // Who knew all of it may also have known what has not come here yet.
    if let last = versions.last(where: { one in versions.allSatisfy { $0.stamp == one.stamp || one.follows($0) } }) {
      row = last.after.map { _ in (0..<columnCount).map { Self.value($0, of: last, versions) } }
      return
    }
    let living = versions.filter { one in
      !one.isDelete && !versions.contains { $0.isDelete && Self.ends($0, one, rules.deletes) }
    }
    guard let winner = Self.winner(living.heads, rules.rule) else { return }
    row = try (0..<columnCount).map { column in
      guard rules.isTrackedByItself(column) else { return Self.value(column, of: winner, versions) }
      let values = ColumnVersions(column, living, all: versions)
      return try values.settled(rules.columns[column] ?? rules.rule, evaluate)
        ?? Self.value(column, of: winner, versions)
    }
  }

  /// Under rules without expressions.
  package init(_ history: RowHistory, _ rules: ConflictRules, columnCount: Int) {
    self.init(history, rules, columnCount: columnCount) { _, _, _, _ in nil }
  }

  /// Without what other nodes than the owner made of rows that were there.
  private static func allowed(_ versions: [RowVersion], _ owner: String) -> [RowVersion] {
    let own = versions.filter { $0.stamp.isOf(owner) }
    // Of a row that the owner has not touched, what came in stays as it came.
    return own.isEmpty && versions.contains(where: \.isInsert) ? versions.filter(\.isInsert) : own
  }

  /// Whether a delete ends what a version made of the row.
  private static func ends(_ delete: RowVersion, _ version: RowVersion, _ rule: ConflictRules.DeleteRule) -> Bool {
    if delete.follows(version) { return true }
    // Who inserts a row does so because it is gone already.
    guard delete.isConcurrent(with: version), !version.isInsert else { return false }
    return switch rule {
    case .deleteWins: true
    case .updateWins: false
    case .newest: delete.stamp > version.stamp
    }
  }

  /// A value that the version's trail left out is that of the last version before it which gives it.
  private static func value(_ column: Int, of version: RowVersion, _ all: [RowVersion]) -> Value? {
    if let value = version.after?[column] { return value }
    return all.filter { version.follows($0) }.lazy.reversed().compactMap { $0.after?[column] }.first
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
}
