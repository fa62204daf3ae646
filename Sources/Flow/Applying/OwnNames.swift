import Changes

extension TableDifference {
  /// Returns a renamed column if its new name is that of a column which only the target has; nil if there is none.
  ///
  ///     source: RENAME COLUMN a TO b     target: t(id, a, b)     ->  (old: "a", new: "b")
  ///     source: RENAME COLUMN a TO b     target: t(id, b)        ->  nil: the operator has renamed it
  ///
  /// - Parameter there: The columns of the target's table, see ``Swift/StringProtocol/key(in:)``.
  /// - Parameter isStrict: Whether a new column with the old name does not show that an operator has made the whole
  ///   change.
  func ownNames(in there: Set<NameKey>, isStrict: Bool) -> (old: String, new: String)? {
    func key(_ name: String) -> NameKey { name.key(in: after.engine) }
    let (were, are) = (before.columns.map { key($0.name) }, after.columns.map { key($0.name) })
    return renamedColumns.first { old, new in
      let (old, new) = (key(old), key(new))
      return old != new && there.contains(old) && there.contains(new) && !were.contains(new)
        && (isStrict || !are.contains(old))
    }.map { (old: $0.0, new: $0.1) }
  }
}
