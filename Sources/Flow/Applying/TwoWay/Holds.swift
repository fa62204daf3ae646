/// The trails of which a database may lack changes, because of suspended tables or the quarantine.
struct Holds {
  /// For each such trail, the transaction after which changes may be missing.
  private var through: [String: UInt64] = [:]
  /// The trails about which this database's own trail may still get transactions that state too little.
  private var watched: Set<String> = []

  mutating func hold(_ trail: String, through number: UInt64?) {
    through[trail] = number
    if number != nil { watched.insert(trail) }
  }

  func isHeld(_ trail: String, before number: UInt64) -> Bool { through[trail].map { $0 < number } ?? false }

  func isWatched(_ trail: String) -> Bool { watched.contains(trail) }

  /// Notes that everything that applications have committed in this database was read from its own trail.
  mutating func noteOwnRead(about trail: String) { if through[trail] == nil { watched.remove(trail) } }
}
