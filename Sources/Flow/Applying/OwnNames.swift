import Changes

extension TableDifference {
  /// Returns the first renamed column whose new name is taken by a column that only the target has; nil if there is
  /// none.
  ///
  ///     source: RENAME COLUMN a TO b     target: t(id, a, b)     ->  (old: "a", new: "b")
  ///     source: RENAME COLUMN a TO b     target: t(id, b)        ->  nil: the operator has renamed it
  ///
  /// - Parameter there: The names of the target table's columns, as the target compares them.
  /// - Parameter isStrict: If false, ignores a rename if the schema change also adds a column with the old name.
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
