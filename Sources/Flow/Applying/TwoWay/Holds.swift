import Changes
import Conflicts
import Versions

/// The trails with changes that a database may lack, because of suspended tables or the quarantine.
struct Holds {
  /// For each such trail, the transaction after which changes may be missing.
  private var through: [NameKey: UInt64] = [:]
  /// The trails about which this database's own trail may still get transactions that state too little.
  private var watched: Set<NameKey> = []
  /// The transactions in quarantine, or discarded from it.
  var aside = AsideTransactions()

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

/// The transactions in quarantine, or discarded from it. The target has none of their rows.
struct AsideTransactions {
  /// The numbers by trail, without empty sets.
  private var numbers: [NameKey: Set<UInt64>] = [:]

  var isEmpty: Bool { numbers.isEmpty }

  func contains(_ stamp: VersionStamp) -> Bool { numbers[stamp.origin.nameKey]?.contains(stamp.number) ?? false }

  mutating func set(_ all: Set<UInt64>, of trail: TrailName) {
    numbers[trail.description.nameKey] = all.isEmpty ? nil : all
  }

  mutating func insert(_ number: UInt64, of trail: TrailName) {
    numbers[trail.description.nameKey, default: []].insert(number)
  }

  mutating func remove(_ number: UInt64, of trail: TrailName) {
    var rest = numbers[trail.description.nameKey] ?? []
    rest.remove(number)
    set(rest, of: trail)
  }
}

// Transactions in quarantine: they make no versions until they are applied.
extension TwoWay {
  var aside: AsideTransactions { held.withLock { $0.aside } }

  /// Stores which changes of a trail the target lacks.
  func note(_ reach: Reach, of trail: TrailName) {
    hold(trail, through: reach.held)
    note(aside: reach.aside, of: trail)
  }

  /// Stores which transactions of a trail are in quarantine, or were discarded from it.
  func note(aside numbers: Set<UInt64>, of trail: TrailName) { held.withLock { $0.aside.set(numbers, of: trail) } }

  /// Notes that a transaction goes into quarantine.
  func putAside(_ number: UInt64, of trail: TrailName) { held.withLock { $0.aside.insert(number, of: trail) } }

  /// Notes that a transaction in quarantine was applied. Called by the apply that has the turn to write.
  func bringBack(_ number: UInt64, of trail: TrailName) { held.withLock { $0.aside.remove(number, of: trail) } }
}

extension [VersionPlace] {
  /// Returns these versions without those of transactions in quarantine or discarded from it. The transaction at
  /// `place` counts, as it may be one that is retried.
  func counted(by shared: TwoWay, at place: VersionPlace) -> [VersionPlace] {
    guard !isEmpty else { return self }
    let aside = shared.aside
    return aside.isEmpty ? self : filter { $0.stamp == place.stamp || !aside.contains($0.stamp) }
  }
}

extension TwoWay {
  /// Returns whether this database's own trail may get transactions that state less of a trail than their authors knew.
  func mayUnderstate(_ trail: TrailName) -> Bool { held.withLock { $0.isWatched(trail) } }

  /// Notes that the version window has read everything that applications have committed so far in this database.
  func noteOwnRead(about trail: TrailName) { held.withLock { $0.noteOwnRead(about: trail) } }
}
