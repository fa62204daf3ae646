import Changes

/// Matches the columns of a target table with the columns of the trail's rows.
enum FormColumns {
  /// Returns for each column of the target its index in the trail's table; nil if the trail's table lacks it.
  ///
  /// Columns are matched by name. Key columns that a rename left without a match are matched in key order.
  ///
  ///     places(["nr", "stock"], [0], in: item(id, stock), .sqlite)     // [0, 1]: nr matches id, the key
  ///
  /// - Parameter columns: The names of the target's columns.
  /// - Parameter key: The indexes of the target's key columns.
  /// - Parameter table: The trail's table, with names as converted for the target's engine.
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

  /// Returns whether these columns of a trail's table, in any order, are its key.
  static func areKey(_ columns: [Int], of table: TableSchema) -> Bool {
    !columns.isEmpty && columns.sorted() == table.key.sorted()
  }
}
