import Changes

/// The places of a target table's columns in the rows of a trail.
enum FormColumns {
  /// Returns for each column of the target its place in the trail's table; nil if the trail's table lacks the column.
  ///
  /// Columns are found by name. If both tables have a key of one column and its name differs, one end has renamed that
  /// column while rows of the other end were on their way: the key of the one is the key of the other.
  ///
  ///     places(["nr", "stock"], [0], in: item(id, stock), .sqlite)     [0, 1]
  ///
  /// - Parameter columns: the names of the target's columns.
  /// - Parameter key: the places of the target's key columns.
  /// - Parameter table: the trail's table with the names that it has in the target's engine.
  static func places(_ columns: [String], _ key: [Int], in table: TableSchema, _ engine: Engine) -> [Int?] {
    let names = table.columns.map { $0.name.key(in: engine) }
    var places = columns.map { names.firstIndex(of: $0.key(in: engine)) }
    if key.count == 1, table.key.count == 1, places[key[0]] == nil, !places.contains(table.key[0]) {
      places[key[0]] = table.key[0]
    }
    return places
  }
}
