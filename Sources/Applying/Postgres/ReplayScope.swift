import Changes

/// Which tables of a trail a replay applies, followed through the names that they have on their way.
///
/// The main way applies all but those that wait; a lane applies some that wait, and nothing else. Apply's state has a
/// table that waits by the name that it has where the main way stands; in its lane, which is behind, it may still have
/// another.
struct ReplayScope {
  /// A table of a lane of which nothing is to be applied yet: its name there, and the record with which it begins.
  private struct Coming {
    let place: String
    let from: Position
  }

  let isLane: Bool
  /// The name in state of each table that waits, by the name that it has here.
  private(set) var places: [NameKey: String] = [:]
  /// By the name in state.
  private var coming: [NameKey: Coming] = [:]

  init(waiting: some Sequence<PostgresTargetState.Waiting>, isLane: Bool) {
    self.isLane = isLane
    for table in waiting {
      if isLane, let from = table.from {
        coming[table.source] = Coming(place: table.place, from: from)
      } else {
        places[isLane ? table.place : table.source] = table.source
      }
    }
  }

  /// The table's name in state; nil when it is not for this replay.
  func key(_ name: String) -> String? {
    if isLane { return places[name] }
    return places[name] == nil ? name : nil
  }

  // MARK: Tables that begin and end

  /// A lane has come to a record: true when tables begin there.
  mutating func reach(_ position: Position) -> Bool {
    guard !coming.isEmpty else { return false }
    let begun = coming.filter { $0.value.from <= position }
    for (key, table) in begun {
      coming[key] = nil
      places[table.place] = key.text
    }
    return !begun.isEmpty
  }

  /// From here on the table that has this name is not for this replay.
  mutating func leave(_ name: String) {
    if isLane { places[name] = nil } else { places[name] = name }
  }

  /// A table has another name now, or the same; its name in state after that, nil when it is not for this replay.
  mutating func rename(_ old: String, to new: String) -> String? {
    guard !old.hasSameBytes(as: new) else { return key(old) }
    if let known = places.removeValue(forKey: old.nameKey) {
      places[new] = isLane ? known : new
      return isLane ? known : nil
    }
    return isLane ? nil : new
  }

  /// Where a table is now, in a lane, and from which record on it is there.
  func place(of key: String) -> (name: String, from: Position?)? {
    if let name = places.first(where: { $0.value.hasSameBytes(as: key) })?.key { return (name.text, nil) }
    return coming[key].map { ($0.place, $0.from) }
  }
}
