import Changes

/// Two concurrent versions of a row: neither author knew the other version. `incoming` reached this node after `other`.
package struct Conflict: Equatable, Sendable {
  /// The type of a conflict, with the names of PostgreSQL 18.
  package enum Kind: String, Sendable, CaseIterable {
    /// An insert of a row that another origin has inserted.
    case insertExists = "insert_exists"
    /// An update of a row that another origin has updated.
    case updateOriginDiffers = "update_origin_differs"
    /// An update that gives a row a key that another row already has.
    case updateExists = "update_exists"
    /// An update of a row that does not exist, and that no known version deleted.
    case updateMissing = "update_missing"
    /// An update of a row that another origin has deleted.
    case updateDeleted = "update_deleted"
    /// A delete of a row that another origin has updated.
    case deleteOriginDiffers = "delete_origin_differs"
    /// A delete of a row that another origin has already deleted.
    case deleteMissing = "delete_missing"
    /// An insert or update of a row whose unique values other rows already have.
    case multipleUniqueConflicts = "multiple_unique_conflicts"
    /// A change that the target refuses for another reason. Only operators resolve it, with `cairn skip`.
    case changeRefused = "change_refused"
  }

  package var kind: Kind
  package var incoming: VersionStamp
  package var other: VersionStamp
  /// The columns that both versions wrote. All columns if conflicts are detected by row, or if one version is a delete.
  package var columns: [Int]

  package init(kind: Kind, incoming: VersionStamp, other: VersionStamp, columns: [Int]) {
    (self.kind, self.incoming, self.other, self.columns) = (kind, incoming, other, columns)
  }

  /// Returns the conflicts of `incoming` with the known versions of its row; empty if there are none.
  package static func all(
    of incoming: RowVersion, in history: RowHistory, _ rules: ConflictRules, columnCount: Int
  ) -> [Conflict] {
    let known = history.versions.filter { $0.stamp != incoming.stamp }
    guard !known.contains(where: { $0.follows(incoming) }) else { return [] }
    return known.filter { $0.isConcurrent(with: incoming) }.heads.compactMap { other in
      guard let kind = kind(incoming, other) else { return nil }
      var columns = Array(0..<columnCount)
      if !incoming.isDelete, !other.isDelete {
        let both = columns.filter { incoming.wrote($0) && other.wrote($0) }
        let isOne =
          columns.contains { !rules.isTrackedByItself($0) && incoming.wrote($0) }
          && columns.contains { !rules.isTrackedByItself($0) && other.wrote($0) }
        columns = isOne ? columns.filter { !rules.isTrackedByItself($0) || both.contains($0) } : both
        if columns.isEmpty { return nil }
      }
      return Conflict(kind: kind, incoming: incoming.stamp, other: other.stamp, columns: columns)
    }
  }

  private static func kind(_ incoming: RowVersion, _ other: RowVersion) -> Kind? {
    switch (incoming.write, other.write) {
    case (.insert, .delete), (.delete, .insert): nil
    case (.insert, _): .insertExists
    case (.update, .delete): .updateDeleted
    case (.update, _): .updateOriginDiffers
    case (.delete, .delete): .deleteMissing
    case (.delete, .update): .deleteOriginDiffers
    }
  }
}
