import Changes
import Conflicts
import Versions

/// The trails with changes that a database may lack, because of suspended tables or the quarantine.
struct Holds {
  /// For each such trail, the transaction after which changes may be missing.
  private var through: [NameKey: UInt64] = [:]
  /// The trails about which this database's own trail may still get transactions that state too little.
  private var watched: Set<NameKey> = []
  /// The transactions of each trail that are in quarantine.
  private var aside: [NameKey: Set<UInt64>] = [:]
  /// The transactions of each trail that were discarded from quarantine since the applies started.
  private var discarded: [NameKey: Set<UInt64>] = [:]

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

extension Holds {
  mutating func note(aside numbers: Set<UInt64>, of trail: TrailName) {
    aside[trail.description.nameKey] = numbers.isEmpty ? nil : numbers
  }

  mutating func putAside(_ number: UInt64, of trail: TrailName) {
    aside[trail.description.nameKey, default: []].insert(number)
  }

  mutating func bringBack(_ number: UInt64, of trail: TrailName) {
    aside[trail.description.nameKey]?.remove(number)
  }

  mutating func discard(_ number: UInt64, of trail: TrailName) {
    discarded[trail.description.nameKey, default: []].insert(number)
  }

  func isAside(_ stamp: VersionStamp) -> Bool {
    if aside.isEmpty, discarded.isEmpty { return false }
    let key = stamp.origin.nameKey
    return aside[key]?.contains(stamp.number) == true || discarded[key]?.contains(stamp.number) == true
  }
}

// Transactions in quarantine: the target has none of their rows, so they make no versions until they are applied.
extension TwoWay {
  /// Stores which changes of a trail the target lacks.
  func note(_ reach: Reach, of trail: TrailName) {
    hold(trail, through: reach.held)
    note(aside: reach.aside, of: trail)
  }

  /// Stores which transactions of a trail are in quarantine.
  func note(aside numbers: Set<UInt64>, of trail: TrailName) { held.withLock { $0.note(aside: numbers, of: trail) } }

  /// Notes that a transaction goes into quarantine.
  func putAside(_ number: UInt64, of trail: TrailName) { held.withLock { $0.putAside(number, of: trail) } }

  /// Notes that a transaction in quarantine was applied. Called by the apply that has the turn to write.
  func bringBack(_ number: UInt64, of trail: TrailName) { held.withLock { $0.bringBack(number, of: trail) } }

  /// Notes that the operator discarded a transaction in quarantine: the target never gets its rows.
  func discard(_ number: UInt64, of trail: TrailName) { held.withLock { $0.discard(number, of: trail) } }

  func isAside(_ stamp: VersionStamp) -> Bool { held.withLock { $0.isAside(stamp) } }
}

extension [VersionPlace] {
  /// Returns these versions without those of transactions in quarantine. The transaction at `place` counts, as it may
  /// be one that is retried.
  func counted(by shared: TwoWay, at place: VersionPlace) -> [VersionPlace] {
    filter { $0.stamp == place.stamp || !shared.isAside($0.stamp) }
  }
}

extension TwoWay {
  /// Returns whether this database's own trail may get transactions that state less of a trail than their authors knew.
  func mayUnderstate(_ trail: TrailName) -> Bool { held.withLock { $0.isWatched(trail) } }

  /// Notes that the version window has read everything that applications have committed so far in this database.
  func noteOwnRead(about trail: TrailName) { held.withLock { $0.noteOwnRead(about: trail) } }
}
