import Capturing
import Changes
import Mapping
import SystemKit
import Trails

/// Finds out from the trail whether a differing row is in flight. The row is read at the source, then at the target.
/// The changes in the trail between both reads are applied to the source's row.
struct SettlingByTrail: Settling {
  private static let roundsMax = 5
  private static let patienceMilliseconds: Int64 = 20_000

  let follower: TrailFollower
  let ends: FlightEnds
  let seed: UInt64
  let stop: StopSignal

  func settle(_ look: RowLook, _ verdict: RowVerdict, keyed suspects: [Suspect]) throws -> ProvenDifferences {
    do { return try settleAtOnce(look, verdict, suspects) } catch is OriginSource.TooLarge {
      // Nothing can be proven about a row that does not fit into an answer.
      guard suspects.count > 1 else { return ProvenDifferences(inFlight: suspects.count) }
      let middle = suspects.count / 2
      var settlement = try settle(look, verdict, keyed: Array(suspects[..<middle]))
      settlement.add(try settle(look, verdict, keyed: Array(suspects[middle...])))
      return settlement
    }
  }

  private func settleAtOnce(_ look: RowLook, _ verdict: RowVerdict, _ suspects: [Suspect]) throws -> ProvenDifferences {
    follower.isStalled = false
    guard follower.isRunning else { return try settleAtRest(look, verdict, keyed: suspects) }
    var left = suspects
    var settlement = ProvenDifferences()
    for _ in 0..<Self.roundsMax where !left.isEmpty && !stop.isSet && !follower.isStalled {
      let round = try round(look.table) {
        let found = try look.rows(.source, left)
        let rows = left.map { ($0.hash, found[$0.hash]?.first.map { .values($0) } ?? TrailFold.Row.absent) }
        return (rows: Dictionary(rows, uniquingKeysWith: { first, _ in first }), counts: nil)
      } target: {
        try look.rows(.target, left)
      }
      guard let (fold, there) = round else { continue }
      var unknown: [Suspect] = []
      for suspect in left {
        var here: [Value]?
        if case .values(let values)? = fold.rows[suspect.hash] {
          guard !values.contains(nil) else {
            unknown.append(suspect)
            continue
          }
          here = values.compactMap { $0 }
        }
        settlement.differences += try verdict.differences(here, there[suspect.hash] ?? [])
      }
      left = unknown
    }
    settlement.inFlight = left.count
    if !left.isEmpty, !stop.isSet {
      let (here, there) = (try look.rows(.source, left), try look.rows(.target, left))
      settlement.unproven = try left.flatMap { suspect in
        try verdict.differences(here[suspect.hash]?.first, there[suspect.hash] ?? [])
      }
    }
    return settlement
  }

  func settle(
    _ look: RowLook, _ verdict: RowVerdict, whole hashes: [UInt64], _ report: (ProvenDifferences) throws -> Void
  ) throws {
    follower.isStalled = false
    guard follower.isRunning else { return try settleAtRest(look, verdict, whole: hashes, report) }
    for _ in 0..<Self.roundsMax where !stop.isSet && !follower.isStalled {
      let found: (fold: TrailFold, there: RowCounts)?
      do {
        found = try round(look.table) {
          (rows: [:], counts: try look.counts(.source, hashes))
        } target: {
          try look.counts(.target, hashes)
        }
      } catch is OriginSource.TooLarge { break }
      guard let (fold, there) = found else { continue }
      for hash in hashes {
        let difference = try verdict.difference(
          fold.count(hash) - there[hash], source: fold.row(hash), target: there.row(hash))
        if let difference { try report(ProvenDifferences(differences: [difference])) }
      }
      return
    }
    try report(ProvenDifferences(inFlight: hashes.count))
  }

  /// The rows that were read at the source: rows by the hash of their key, and counts of equal rows without a key.
  typealias Seen = (rows: [UInt64: TrailFold.Row], counts: RowCounts?)

  /// Reads the source, the target, and the trail's changes between both reads. Returns nil if the reads do not prove
  /// which values the target must have.
  private func round<T>(
    _ table: ComparedTable, source: () throws -> Seen, target: () throws -> T
  ) throws -> (fold: TrailFold, there: T)? {
    do { return try readBoth(table, source, target) } catch let error as CairnError
      where error.code == .checkpointForeign || error.code == .trailMissing
    {
      // The segment at the follower's position was purged while other tables were read.
      follower.reset()
      return nil
    }
  }

  private func readBoth<T>(
    _ table: ComparedTable, _ source: () throws -> Seen, _ target: () throws -> T
  ) throws -> (fold: TrailFold, there: T)? {
    follower.isStalled = false
    guard try follower.goToEnd(ends.checkpoint) else { return nil }
    let (moment, seen) = try ends.atSource(source)
    var fold = TrailFold(table, seed: seed, moment: moment, rows: seen.rows, counts: seen.counts)
    let place = try wait(for: moment, table.source.engine) { record, reader in try fold.take(record, reader) }
    guard let place, try waitForTarget(place) else { return nil }
    let (checkpoint, there) = try ends.atTarget(target)
    guard let checkpoint, try read(&fold, to: checkpoint.position), !fold.isUnknown else { return nil }
    return (fold, there)
  }

  /// Reads the trail until it has every commit that was visible at the source at `moment`, for up to 20 seconds.
  /// Returns the position in the trail; nil if the time is over.
  private func wait(
    for moment: SourceMoment, _ engine: Engine, _ take: (Record, TrailReader) throws -> Void
  ) throws -> Position? {
    if let reach = try follower.reach(engine), moment.isBehind(reach) { return try follower.current().commitPosition }
    try ends.askForProgress()
    let limit = Clock.monotonicMilliseconds + Self.patienceMilliseconds
    while !stop.isSet, Clock.monotonicMilliseconds < limit {
      let isThere = try follower.read(take) { reader in
        guard let bytes = reader.lastSourcePosition else { return false }
        return moment.isBehind(try SourceReach(decoding: bytes, of: engine))
      }
      if isThere { return try follower.current().commitPosition }
      // The source may report rows as captured that no remaining record of the trail mentions.
      if try ends.isTaken(moment, in: follower.place.folder) {
        _ = try follower.read(take) { _ in false }
        return try follower.current().commitPosition
      }
      _ = try follower.current().wait(milliseconds: ends.isAfar ? 500 : 100, also: stop.descriptor)
    }
    follower.isStalled = true
    return nil
  }

  /// Waits until the target's checkpoint reaches a position. Returns false if the checkpoint does not move for 20
  /// seconds before that.
  private func waitForTarget(_ place: Position) throws -> Bool {
    var seen: Position?
    var limit = Clock.monotonicMilliseconds + Self.patienceMilliseconds
    while true {
      let position = try ends.checkpoint()?.position
      if let position, position >= place { return true }
      if position != seen { limit = Clock.monotonicMilliseconds + Self.patienceMilliseconds }
      seen = position
      if Clock.monotonicMilliseconds > limit || stop.wait(milliseconds: 10) {
        follower.isStalled = true
        return false
      }
    }
  }

  // MARK: Before rows are read

  /// Waits until the target has applied everything that is committed at the source now. Returns false if the trail
  /// lacks these commits after 20 seconds, or if the target's checkpoint does not move for 20 seconds.
  func waitUntilNow() throws -> Bool {
    guard try follower.goToEnd(ends.checkpoint) else { return false }
    let (moment, _) = try ends.atSource {}
    guard let place = try wait(for: moment, ends.source.engine, { _, _ in }) else { return false }
    return try waitForTarget(place)
  }

  /// Waits up to 20 seconds until the refresh of a table has ended. Returns false if the time is over, or if no Cairn
  /// process is replicating.
  func waitForCopy(of table: ComparedTable) throws -> Bool {
    let limit = Clock.monotonicMilliseconds + Self.patienceMilliseconds
    while try ends.isCopied(table) {
      guard follower.isRunning, Clock.monotonicMilliseconds < limit, !stop.wait(milliseconds: 200) else { return false }
    }
    return true
  }

  private func read(_ fold: inout TrailFold, to place: Position) throws -> Bool {
    if try follower.current().commitPosition >= place { return true }
    return try follower.read { record, reader in
      try fold.take(record, reader)
    } until: { reader in
      reader.commitPosition >= place
    }
  }
}
