import Changes

/// The tables that one reader of a trail applies, while their names change along the trail.
///
/// The main reader applies all tables except suspended ones. A catch-up applies only some suspended tables. A catch-up
/// reads an earlier part of the trail, in which a table may still have a former name.
struct ReplayScope {
  /// A table of a catch-up whose records are skipped up to the record `from`. `place` is the table's name at that
  /// record.
  private struct Coming {
    let place: String
    let from: Position
  }

  let isCatchUp: Bool
  /// By a suspended table's name at the present place in the trail: its name in apply's state.
  private(set) var places: [NameKey: String] = [:]
  /// The catch-up's tables whose first record to apply is not reached yet, by their names in apply's state.
  private var coming: [NameKey: Coming] = [:]

  init(waiting: some Sequence<PostgresTargetState.Waiting>, isCatchUp: Bool) {
    self.isCatchUp = isCatchUp
    for table in waiting {
      if isCatchUp, let from = table.from {
        coming[table.source] = Coming(place: table.place, from: from)
      } else {
        places[isCatchUp ? table.place : table.source] = table.source
      }
    }
  }

  /// Returns the name in apply's state of a table with this name in the trail; nil if this reader does not apply the
  /// table.
  func key(_ name: String) -> String? {
    if isCatchUp { return places[name] }
    return places[name] == nil ? name : nil
  }

  // MARK: Tables that begin and end

  /// Called before each record of a catch-up. Returns whether this record is the first one to apply for any suspended
  /// table.
  mutating func reach(_ position: Position) -> Bool {
    guard !coming.isEmpty else { return false }
    let begun = coming.filter { $0.value.from <= position }
    for (key, table) in begun {
      coming[key] = nil
      places[table.place] = key.text
    }
    return !begun.isEmpty
  }

  /// Excludes a table: this reader skips the present record and all later records of the table.
  mutating func leave(_ name: String) {
    if isCatchUp { places[name] = nil } else { places[name] = name }
  }

  /// Follows a rename of a table, perhaps to the same name. Returns the table's name in apply's state afterwards; nil
  /// if this reader does not apply the table.
  mutating func rename(_ old: String, to new: String) -> String? {
    guard !old.hasSameBytes(as: new) else { return key(old) }
    if let known = places.removeValue(forKey: old.nameKey) {
      places[new] = isCatchUp ? known : new
      return isCatchUp ? known : nil
    }
    return isCatchUp ? nil : new
  }

  /// Returns the name that a catch-up's table has at the present place, and the first record to apply. That record is
  /// nil if it was already reached.
  func place(of key: String) -> (name: String, from: Position?)? {
    if let name = places.first(where: { $0.value.hasSameBytes(as: key) })?.key { return (name.text, nil) }
    return coming[key].map { ($0.place, $0.from) }
  }
}
