import Changes

/// The resolved row, computed from the row's known versions, without regard to their order of arrival.
///
///     let settlement = try ConflictResolution(history, rules, columnCount: 2)
///     settlement.row   // nil: the row is deleted
package struct ConflictResolution: Equatable, Sendable {
  /// The resolved row; nil for a delete. A nil column keeps the target's value.
  package private(set) var row: RowVersion.Row?
  /// Whether the existing row stays, because `insert-only` lets only the owner change existing rows. If true, ignore
  /// `row`.
  package private(set) var isKept = false
  /// The stamps of versions that are ignored, because `insert-only` does not let their authors change the existing row.
  package private(set) var leftOut: Set<VersionStamp> = []

  /// Resolves the row from its versions.
  /// - Parameter rules: The rules of one direction, from ``ConflictRules/between(source:target:)``.
  /// - Parameter columnCount: The number of columns of the table.
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
    // Take the version that follows all others as it is. Its author may also have known versions that have not arrived
    // here yet.
    if let last = versions.whole {
      row = last.row(columnCount, among: versions)
      return
    }
    let deletes = versions.filter(\.isDelete)
    let living = versions.filter { one in
      !one.isDelete && !deletes.contains { Self.ends($0, one, rules, versions) }
    }
    let rivals = ConcurrentVersions(living, all: versions, columnCount: columnCount, code)
    guard let winner = try rivals.row(rules.rule) else { return }
    row = try (0..<columnCount).map { column in
      func settled() throws -> Value? {
        let own = rules.columns[column]
        return try ColumnVersions(column, rivals).settled(own ?? rules.rule, isOfRows: own == nil)
      }
      if rules.isTrackedByItself(column), let value = try settled() { return value }
      if let value = winner[column] { return value }
      // The last author's table did not have the column. Use the latest version that has and wrote the column, or the
      // value before it.
      guard versions.contains(where: { $0.lacks.contains(column) }) else { return nil }
      return try settled() ?? versions.lazy.compactMap { $0.before?[column] }.first
    }
  }

  /// Returns the versions that count if only the owner may change existing rows. These are the owner's versions, or all
  /// inserts if the owner has no version.
  private static func allowed(_ versions: [RowVersion], _ owner: String) -> [RowVersion] {
    let own = versions.filter { $0.stamp.isOf(owner) }
    // If the owner has not touched the row, only its inserts count.
    return own.isEmpty && versions.contains(where: \.isInsert) ? versions.filter(\.isInsert) : own
  }

  /// Returns whether `delete` beats `version`: the delete's author knew the version, or the rules prefer the delete.
  private static func ends(
    _ delete: RowVersion, _ version: RowVersion, _ rules: ConflictRules, _ all: [RowVersion]
  ) -> Bool {
    if delete.follows(version) { return true }
    guard delete.isConcurrent(with: version) else { return false }
    // A node can insert a row only after it is deleted there. If another node's row with that key has won over the
    // insert, the delete of that row also ends the insert.
    if version.isInsert {
      let isBeaten = all.contains { other in
        !other.isDelete && delete.follows(other) && other.isConcurrent(with: version)
          && ConcurrentVersions.winner([version, other].sorted { $0.stamp < $1.stamp }, rules.rule)?.stamp
            == other.stamp
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
