import Changes

/// The places of a target table's columns in the rows of a trail.
enum FormColumns {
  /// Returns for each column of the target its place in the trail's table; nil if the trail's table lacks the column.
  ///
  /// Columns are found by name. If names of key columns differ, one end has renamed them while rows of the other end
  /// were on their way. Then the columns that are left over in both keys belong together, in the order of the keys.
  ///
  ///     places(["nr", "stock"], [0], in: item(id, stock), .sqlite)     [0, 1]
  ///
  /// - Parameter columns: the names of the target's columns.
  /// - Parameter key: the places of the target's key columns.
  /// - Parameter table: the trail's table with the names that it has in the target's engine.
  static func places(_ columns: [String], _ key: [Int], in table: TableSchema, _ engine: Engine) -> [Int?] {
    let names = table.columns.map { $0.name.key(in: engine) }
    var places = columns.map { names.firstIndex(of: $0.key(in: engine)) }
    let missing = key.filter { places[$0] == nil }
    let leftOver = table.key.filter { !places.contains($0) }
    if key.count == table.key.count, missing.count == leftOver.count {
      for (own, theirs) in zip(missing, leftOver) { places[own] = theirs }
    }
    return places
  }
}
