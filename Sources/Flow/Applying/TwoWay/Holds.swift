import Changes

/// The trails with changes that a database may lack, because of suspended tables or the quarantine.
struct Holds {
  /// For each such trail, the transaction after which changes may be missing.
  private var through: [NameKey: UInt64] = [:]
  /// The trails about which this database's own trail may still get transactions that state too little.
  private var watched: Set<NameKey> = []

  mutating func hold(_ trail: TrailName, through number: UInt64?) {
    through[trail.description.nameKey] = number
    if number != nil { watched.insert(trail.description.nameKey) }
  }

  func isHeld(_ trail: String, before number: UInt64) -> Bool { through[trail.nameKey].map { $0 < number } ?? false }

  func isWatched(_ trail: TrailName) -> Bool { watched.contains(trail.description.nameKey) }

  /// Notes that everything that applications have committed in this database was read from its own trail.
  mutating func noteOwnRead(about trail: TrailName) {
    let key = trail.description.nameKey
    if through[key] == nil { watched.remove(key) }
  }
}

extension TwoWay {
  /// Returns whether this database's own trail may get transactions that state less of a trail than their authors knew.
  func mayUnderstate(_ trail: TrailName) -> Bool { held.withLock { $0.isWatched(trail) } }

  /// Notes that the version window has read everything that applications have committed so far in this database.
  func noteOwnRead(about trail: TrailName) { held.withLock { $0.noteOwnRead(about: trail) } }
}
