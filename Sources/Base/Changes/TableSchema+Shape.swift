extension TableSchema {
  /// Returns whether the images of two schemas have the same columns.
  package func hasShape(of other: TableSchema?) -> Bool {
    guard let other, columns.count == other.columns.count, key == other.key else { return false }
    return zip(columns, other.columns).allSatisfy {
      $0.name.hasSameBytes(as: $1.name) && $0.declaredType.hasSameBytes(as: $1.declaredType)
    }
  }
}
