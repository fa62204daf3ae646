import Changes
import Mapping
import PostgresKit
import SystemKit

/// The result of examining suspects: the proven differences, and the rows that may be in flight.
struct Settlement {
  var differences: [Difference] = []
  /// The number of rows that differ, but without proof: they may be in flight.
  var inFlight = 0
  /// The apparent differences of the rows that ``inFlight`` counts. Rows whose differences are not known are left out.
  var unproven: [Difference] = []

  mutating func add(_ other: Settlement) {
    differences += other.differences
    inFlight += other.inFlight
    unproven += other.unproven
  }

  /// Moves all differences to ``unproven``, and counts them as in flight: they may disappear when changes in flight
  /// arrive.
  mutating func doubt() {
    inFlight += differences.reduce(0) { $0 + $1.times }
    unproven += differences
    differences = []
  }
}

/// A method to find out which suspects are differences and which are in flight.
protocol Settling {
  /// Examines suspects that have a key, by reading their rows again. Returns the differences, and the number of rows
  /// that may be in flight.
  func settle(_ look: RowLook, _ verdict: RowVerdict, keyed: [Suspect]) throws -> Settlement
  /// Examines suspects that are identified by all their values.
  ///
  /// - Parameter whole: The hashes of the suspects' rows, in ascending order.
  /// - Parameter report: Called with the results for some hashes. All results for one hash are in the same call.
  func settle(
    _ look: RowLook, _ verdict: RowVerdict, whole: [UInt64], _ report: (Settlement) throws -> Void) throws
}

/// Examines suspects without reading a trail: it reads their rows again after pauses. A row that stays unequal and
/// unchanged at both ends during a pause counts as a difference, even if it is still in flight.
final class SettlingByLooks: Settling {
  private static let pausesMilliseconds: [Int32] = [2000, 1000, 3000]
  /// The shorter pauses, in milliseconds, that are used after the comparison has paused for 20 s in total.
  private static let shortMilliseconds: [Int32] = [50, 300, 1000]
  private static let patienceMilliseconds: Int64 = 20_000

  private let stop: StopSignal
  /// Whether differences can be proven. False if the target gets rows from a trail that is not on this machine.
  private let proves: Bool
  private var waited: Int64 = 0

  init(stop: StopSignal, proves: Bool) { (self.stop, self.proves) = (stop, proves) }

  /// Calls `body` repeatedly, with a pause before each call except the first. Ends when `body` returns false, after the
  /// last pause, or when the comparison is stopped.
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
  /// Returns the difference for rows that one end has more often than the other; nil if both have the same number.
  ///
  /// - Parameter balance: The number of equal rows at the source minus the number at the target.
  func difference(_ balance: Int, source: [Value]?, target: [Value]?) throws -> Difference? {
    guard balance != 0 else { return nil }
    var difference = try balance > 0 ? difference(source, nil) : difference(nil, target)
    difference?.times = abs(balance)
    return difference
  }
}
