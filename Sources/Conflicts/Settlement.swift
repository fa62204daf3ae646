import Changes

/// What a row is to be, by all the versions of it that are known. A function of their set: no order, no I/O, no clock.
package struct Settlement: Equatable, Sendable {
  /// Nil: the row is not to be there. A column that is nil stays as it is at the target, as no version gives it.
  package private(set) var row: RowVersion.Row?
  /// Nobody who wrote it may change what was there: the row stays as it is at its owner, whatever `row` is.
  package private(set) var isKept = false
  /// Versions that count for nothing, as their authors may not change what was there.
  package private(set) var leftOut: Set<Stamp> = []

  /// `columnCount`: of the table. `rules`: as of ``ConflictRules/between(source:target:)``.
  package init(_ history: RowHistory, _ rules: ConflictRules, columnCount: Int, code: RuleCode = .none) throws {
    var versions = history.versions
    if let owner = rules.owner {
      versions = Self.allowed(versions, owner)
      leftOut = Set(history.versions.map(\.stamp)).subtracting(versions.map(\.stamp))
      if versions.isEmpty {
        isKept = true
        row = history.versions.first.flatMap(\.before)
        return
      }
    }
    // Who knew all of it may also have known what has not come here yet.
    if let last = versions.whole {
      row = last.row(columnCount, among: versions)
      return
    }
    let deletes = versions.filter(\.isDelete)
    let living = versions.filter { one in
      !one.isDelete && !deletes.contains { Self.ends($0, one, rules, versions) }
    }
    let rivals = RivalVersions(living, all: versions, columnCount: columnCount, code)
    guard let winner = try rivals.row(rules.rule) else { return }
    row = try (0..<columnCount).map { column in
      func settled() throws -> Value? {
        let own = rules.columns[column]
        return try ColumnVersions(column, rivals).settled(own ?? rules.rule, isOfRows: own == nil)
      }
      if rules.isTrackedByItself(column), let value = try settled() { return value }
      if let value = winner[column] { return value }
      // Who wrote the row last did not have the column: among those who had, the last who wrote that, or what was there before.
      guard versions.contains(where: { $0.lacks.contains(column) }) else { return nil }
      return try settled() ?? versions.lazy.compactMap { $0.before?[column] }.first
    }
  }

  /// Without what other nodes than the owner made of rows that were there.
  private static func allowed(_ versions: [RowVersion], _ owner: String) -> [RowVersion] {
    let own = versions.filter { $0.stamp.isOf(owner) }
    // Of a row that the owner has not touched, what came in stays as it came.
    return own.isEmpty && versions.contains(where: \.isInsert) ? versions.filter(\.isInsert) : own
  }

  /// Whether a delete ends what a version made of the row.
  private static func ends(
    _ delete: RowVersion, _ version: RowVersion, _ rules: ConflictRules, _ all: [RowVersion]
  ) -> Bool {
    if delete.follows(version) { return true }
    guard delete.isConcurrent(with: version) else { return false }
    // A node inserts a row because it is gone there already. If another node's row of that key has won over the insert,
    // the delete of that row ends the key.
    if version.isInsert {
      let isBeaten = all.contains { other in
        !other.isDelete && delete.follows(other) && other.isConcurrent(with: version)
          && RivalVersions.winner([version, other].sorted { $0.stamp < $1.stamp }, rules.rule)?.stamp == other.stamp
      }
      guard isBeaten else { return false }
    }
    return switch rules.deletes {
    case .deleteWins: true
    case .updateWins: false
    case .newest: delete.stamp > version.stamp
    }
  }
}
