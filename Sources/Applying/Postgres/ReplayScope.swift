/// Which tables of a trail a replay applies, followed through the names that they have on their way.
///
/// The main way applies all but those that wait; a lane applies some that wait, and nothing else. Apply's state has a
/// table that waits by the name that it has where the main way stands; in its lane, which is behind, it may still have
/// another.
struct ReplayScope {
  /// What a table was called where the group began.
  enum Origin: Equatable {
    case named(String)
    /// It was created since, by a name that another table had had.
    case created(String)
  }

  let isLane: Bool
  /// The name in state of each table that waits, by the name that it has here.
  private(set) var places: [String: String] = [:]
  /// Of those that are still to be created.
  private var coming: [String: String] = [:]
  private var origins: [String: Origin] = [:]
  private var freed: Set<String> = []

  /// `number`: the last transaction before the replay's place. A table that is still to be created where it waits has
  /// been so where the main way stands, once that has gone on.
  init(waiting: some Sequence<PostgresTargetState.Waiting>, isLane: Bool, at number: UInt64) {
    self.isLane = isLane
    for table in waiting {
      if table.isComing, isLane || table.table.number == number {
        coming[isLane ? table.place : table.source] = table.source
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

  mutating func beginGroup() {
    origins.removeAll()
    freed.removeAll()
  }

  func origin(_ name: String) -> Origin { origins[name] ?? .named(name) }

  // MARK: Tables that come, go and are renamed

  /// A table is created: its name in state; nil when it is not for this replay.
  mutating func create(_ name: String) -> String? {
    if let key = coming.removeValue(forKey: name) {
      places[name] = key
      return isLane ? key : nil
    }
    if !isLane, freed.contains(name), places[name] == nil { origins[name] = .created(name) }
    return key(name)
  }

  /// A table has another name now, or the same; its name in state after that, nil when it is not for this replay.
  mutating func rename(_ old: String, to new: String) -> String? {
    guard old != new else { return key(old) }
    if let known = places.removeValue(forKey: old) {
      places[new] = isLane ? known : new
      freed.insert(old)
      freed.remove(new)
      return isLane ? known : nil
    }
    if isLane { return nil }
    origins[new] = origin(old)
    origins[old] = nil
    freed.insert(old)
    freed.remove(new)
    return new
  }

  /// Where a table that waits is now, in a lane; whether it is still to be created.
  func place(of key: String) -> (name: String, isComing: Bool)? {
    if let name = places.first(where: { $0.value == key })?.key { return (name, false) }
    return coming.first { $0.value == key }.map { ($0.key, true) }
  }
}
