import Changes

/// The tables of a trail that a replay applies, followed through their names along the trail.
///
/// The main way applies all tables except those that wait; a catch-up applies some that wait, and nothing else. Apply's
/// state names a waiting table as of the place of the main way. Its catch-up is at an earlier place, where the table may
/// have another name.
struct ReplayScope {
  /// A table of a catch-up to which the catch-up applies nothing yet: its name there, and the record with which it begins.
  private struct Coming {
    let place: String
    let from: Position
  }

  let isCatchUp: Bool
  /// The name in apply's state of each suspended table, by the name that the table has at this place of the trail.
  private(set) var places: [NameKey: String] = [:]
  /// The catch-up's tables that have not begun, by their names in apply's state.
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

  /// Returns the name in apply's state of a table with this name in the trail; nil if this replay does not apply the
  /// table.
  func key(_ name: String) -> String? {
    if isCatchUp { return places[name] }
    return places[name] == nil ? name : nil
  }

  // MARK: Tables that begin and end

  /// Moves a catch-up on to a record. Returns whether tables of the catch-up begin at that record.
  mutating func reach(_ position: Position) -> Bool {
    guard !coming.isEmpty else { return false }
    let begun = coming.filter { $0.value.from <= position }
    for (key, table) in begun {
      coming[key] = nil
      places[table.place] = key.text
    }
    return !begun.isEmpty
  }

  /// Excludes a table from this replay, from the present record on.
  mutating func leave(_ name: String) {
    if isCatchUp { places[name] = nil } else { places[name] = name }
  }

  /// Renames a table, perhaps to the same name. Returns its name in apply's state after that; nil if this replay does
  /// not apply it.
  mutating func rename(_ old: String, to new: String) -> String? {
    guard !old.hasSameBytes(as: new) else { return key(old) }
    if let known = places.removeValue(forKey: old.nameKey) {
      places[new] = isCatchUp ? known : new
      return isCatchUp ? known : nil
    }
    return isCatchUp ? nil : new
  }

  /// Returns the table's name at this place of a catch-up, and the record from which on it is applied.
  func place(of key: String) -> (name: String, from: Position?)? {
    if let name = places.first(where: { $0.value.hasSameBytes(as: key) })?.key { return (name.text, nil) }
    return coming[key].map { ($0.place, $0.from) }
  }
}
