import Changes

/// The tables that one reader of a trail applies. The scope follows renames of the tables along the trail.
///
/// The main reader applies all tables except suspended ones; a catch-up applies only suspended tables.
struct ReplayScope {
  private struct Coming {
    let place: String
    let from: Position
  }

  let isCatchUp: Bool
  /// The suspended tables' names in apply's state, by their names at the present position in the trail.
  private(set) var places: [NameKey: String] = [:]
  /// The catch-up's tables whose first record to apply is not reached yet, by their names in apply's state.
  private var coming: [NameKey: Coming] = [:]

  init(waiting: some Sequence<PostgresApplyState.Waiting>, isCatchUp: Bool) {
    self.isCatchUp = isCatchUp
    for table in waiting {
      if isCatchUp, let from = table.from {
        coming[table.source] = Coming(place: table.place, from: from)
      } else {
        places[isCatchUp ? table.place : table.source] = table.source
      }
    }
  }

  /// Returns a table's name in apply's state, from its name in the trail. Nil if this reader does not apply the table.
  func key(_ name: String) -> String? {
    if isCatchUp { return places[name] }
    return places[name] == nil ? name : nil
  }

  // MARK: Tables that begin and end

  /// Begins to apply each table of the catch-up whose first record to apply is at or before `position`. Returns whether
  /// there is such a table.
  mutating func reach(_ position: Position) -> Bool {
    guard !coming.isEmpty else { return false }
    let begun = coming.filter { $0.value.from <= position }
    for (key, table) in begun {
      coming[key] = nil
      places[table.place] = key.text
    }
    return !begun.isEmpty
  }

  mutating func leave(_ name: String) {
    if isCatchUp { places[name] = nil } else { places[name] = name }
  }

  /// Follows a rename of a table. Returns the table's name in apply's state; nil if this reader does not apply the
  /// table.
  mutating func rename(_ old: String, to new: String) -> String? {
    guard !old.hasSameBytes(as: new) else { return key(old) }
    if let known = places.removeValue(forKey: old.nameKey) {
      places[new] = isCatchUp ? known : new
      return isCatchUp ? known : nil
    }
    return isCatchUp ? nil : new
  }

  /// For a table of the catch-up, returns its present name in the trail, and the position of its first record to apply.
  /// `from` is nil after that record. Returns nil for any other table.
  func place(of key: String) -> (name: String, from: Position?)? {
    if let name = places.first(where: { $0.value.hasSameBytes(as: key) })?.key { return (name.text, nil) }
    return coming[key].map { ($0.place, $0.from) }
  }
}
