import Changes

/// Two versions of a row whose authors did not know each other's, as the one that came later to a node meets the other.
package struct Conflict: Equatable, Sendable {
  /// As PostgreSQL 18 names them.
  package enum Kind: String, Sendable, CaseIterable {
    /// A row is inserted that somebody else has inserted.
    case insertExists = "insert_exists"
    /// A row is updated that somebody else has updated.
    case updateOriginDiffers = "update_origin_differs"
    /// An update gives a row the key of another one.
    case updateExists = "update_exists"
    /// A row is updated that is not there, and nobody is known to have deleted.
    case updateMissing = "update_missing"
    /// A row is updated that somebody else has deleted.
    case updateDeleted = "update_deleted"
    /// A row is deleted that somebody else has updated.
    case deleteOriginDiffers = "delete_origin_differs"
    /// A row is deleted that is not there: somebody else has deleted it.
    case deleteMissing = "delete_missing"
    /// A row has unique values of several others.
    case multipleUniqueConflicts = "multiple_unique_conflicts"
  }

  package var kind: Kind
  package var incoming: Stamp
  package var other: Stamp
  /// The columns that both wrote; all of them where the row is tracked as one, or one of both deletes it.
  package var columns: [Int]

  package init(kind: Kind, incoming: Stamp, other: Stamp, columns: [Int]) {
    (self.kind, self.incoming, self.other, self.columns) = (kind, incoming, other, columns)
  }

  /// What `incoming` meets among the versions that are known: one conflict for each that it does not follow, that does not
  /// follow it, and that no other of them replaces.
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
