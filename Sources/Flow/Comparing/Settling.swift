import Changes
import Mapping
import PostgresKit
import SystemKit

/// The result of examining suspects.
struct Settlement {
  var differences: [Difference] = []
  /// The number of rows about which nothing could be proven.
  var inFlight = 0
  /// The apparent differences of these rows, as far as known.
  var unproven: [Difference] = []

  mutating func add(_ other: Settlement) {
    differences += other.differences
    inFlight += other.inFlight
    unproven += other.unproven
  }

  /// Counts the differences as unproven, because they may disappear.
  mutating func doubt() {
    inFlight += differences.reduce(0) { $0 + $1.times }
    unproven += differences
    differences = []
  }
}

/// A method to distinguish differences from rows in flight.
protocol Settling {
  /// Judges suspects that have a key.
  func settle(_ look: RowLook, _ verdict: RowVerdict, keyed: [Suspect]) throws -> Settlement
  /// Judges suspects that all their values identify, by their hashes in ascending order. `report` receives the
  /// verdicts, those about one hash together.
  func settle(
    _ look: RowLook, _ verdict: RowVerdict, whole: [UInt64], _ report: (Settlement) throws -> Void) throws
}

/// Judges suspects without a trail, by reading their rows again after pauses. Rows in flight cannot be recognised then.
/// A row that stays the same at both ends, and unequal, is a difference.
final class SettlingByLooks: Settling {
  private static let pausesMilliseconds: [Int32] = [2000, 1000, 3000]
  /// The pauses in milliseconds after the comparison has waited 20 s in all, because many rows differ.
  private static let shortMilliseconds: [Int32] = [50, 300, 1000]
  private static let patienceMilliseconds: Int64 = 20_000

  private let stop: StopSignal
  /// Whether differences can be proven. False if the target is fed from a trail that is unknown here.
  private let proves: Bool
  private var waited: Int64 = 0

  init(stop: StopSignal, proves: Bool) { (self.stop, self.proves) = (stop, proves) }

  /// Calls `body` until it returns false, with a pause before each call except the first, a few times at most. Stops
  /// early if the comparison is stopped.
  private func looks(_ body: () throws -> Bool) rethrows {
    guard try body() else { return }
    for pause in waited < Self.patienceMilliseconds ? Self.pausesMilliseconds : Self.shortMilliseconds {
      waited += Int64(pause)
      guard !stop.wait(milliseconds: pause), try body() else { return }
    }
  }

  func settle(_ look: RowLook, _ verdict: RowVerdict, keyed suspects: [Suspect]) throws -> Settlement {
    var left = suspects
    var before: [UInt64: [[[Value]]]] = [:]
    var settlement = Settlement()
    try looks {
      let (source, target) = (try look.rows(.source, left), try look.rows(.target, left))
      var seen: [UInt64: [[[Value]]]] = [:]
      var changing: [Suspect] = []
      for suspect in left {
        let pair = [source[suspect.hash] ?? [], target[suspect.hash] ?? []]
        let differences = try verdict.differences(pair[0].first, pair[1])
        if differences.isEmpty { continue }
        if before[suspect.hash] == pair {
          settlement.differences += differences
        } else {
          seen[suspect.hash] = pair
          changing.append(suspect)
        }
      }
      (left, before) = (changing, seen)
      return !left.isEmpty
    }
    if !proves { settlement.doubt() }
    settlement.inFlight += left.count
    return settlement
  }

  func settle(
    _ look: RowLook, _ verdict: RowVerdict, whole hashes: [UInt64], _ report: (Settlement) throws -> Void
  ) throws {
    var left = hashes
    var before: (source: RowCounts, target: RowCounts)?
    try looks {
      let (source, target) = (try look.counts(.source, left), try look.counts(.target, left))
      var changing: [UInt64] = []
      for hash in left where source[hash] != target[hash] {
        guard let before, before.source[hash] == source[hash], before.target[hash] == target[hash] else {
          changing.append(hash)
          continue
        }
        let difference = try verdict.difference(
          source[hash] - target[hash], source: source.row(hash), target: target.row(hash))
        var settlement = Settlement(differences: difference.map { [$0] } ?? [])
        if !proves { settlement.doubt() }
        try report(settlement)
      }
      source.forgetRows()
      target.forgetRows()
      (left, before) = (changing, (source, target))
      return !left.isEmpty
    }
    if !left.isEmpty { try report(Settlement(inFlight: left.count)) }
  }
}

extension RowVerdict {
  /// Returns the rows that one end has more often than the other; nil if there are none. `balance` is negative for the
  /// target.
  func difference(_ balance: Int, source: [Value]?, target: [Value]?) throws -> Difference? {
    guard balance != 0 else { return nil }
    var difference = try balance > 0 ? difference(source, nil) : difference(nil, target)
    difference?.times = abs(balance)
    return difference
  }
}
