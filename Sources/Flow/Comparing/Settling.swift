import Changes
import Mapping
import PostgresKit
import SystemKit

/// The proven differences of the examined rows, and the rows that may be in flight.
struct ProvenDifferences {
  var differences: [Difference] = []
  /// The number of rows that differ but may be in flight.
  var inFlight = 0
  /// The differences of rows that may be in flight. A row whose difference is not known is left out.
  var unproven: [Difference] = []

  mutating func add(_ other: ProvenDifferences) {
    differences += other.differences
    inFlight += other.inFlight
    unproven += other.unproven
  }

  mutating func doubt() {
    inFlight += differences.reduce(0) { $0 + $1.times }
    unproven += differences
    differences = []
  }
}

/// A method to find out which differing rows are in flight.
protocol Settling {
  /// Reads the rows with these keys again, and returns their differences and the number that may be in flight.
  func settle(_ look: RowLook, _ verdict: RowVerdict, keyed: [Suspect]) throws -> ProvenDifferences
  /// Reads again the rows that have no key or NULL in their key.
  ///
  /// - Parameter whole: The hashes of the rows, in ascending order.
  /// - Parameter report: Is called several times, each time with the results for some of the hashes.
  func settle(
    _ look: RowLook, _ verdict: RowVerdict, whole: [UInt64], _ report: (ProvenDifferences) throws -> Void) throws
}

/// Reads differing rows again after pauses, without a trail. A row that differs in the same way in two reads, one after
/// the other, counts as a difference.
final class SettlingByLooks: Settling {
  private static let pausesMilliseconds: [Int32] = [2000, 1000, 3000]
  /// The pauses between reads after this object has waited for 20 s in all, in milliseconds.
  private static let shortMilliseconds: [Int32] = [50, 300, 1000]
  private static let patienceMilliseconds: Int64 = 20_000

  private let stop: StopSignal
  /// Whether an unchanged differing row counts as a difference. False if the trail is not on this machine, or the
  /// source is at another node.
  private let proves: Bool
  private var waited: Int64 = 0

  init(stop: StopSignal, proves: Bool) { (self.stop, self.proves) = (stop, proves) }

  private func looks(_ body: () throws -> Bool) rethrows {
    guard try body() else { return }
    for pause in waited < Self.patienceMilliseconds ? Self.pausesMilliseconds : Self.shortMilliseconds {
      waited += Int64(pause)
      guard !stop.wait(milliseconds: pause), try body() else { return }
    }
  }

  func settle(_ look: RowLook, _ verdict: RowVerdict, keyed suspects: [Suspect]) throws -> ProvenDifferences {
    var left = suspects
    var before: [UInt64: [[[Value]]]] = [:]
    var settlement = ProvenDifferences()
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
    _ look: RowLook, _ verdict: RowVerdict, whole hashes: [UInt64], _ report: (ProvenDifferences) throws -> Void
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
        var settlement = ProvenDifferences(differences: difference.map { [$0] } ?? [])
        if !proves { settlement.doubt() }
        try report(settlement)
      }
      source.forgetRows()
      target.forgetRows()
      (left, before) = (changing, (source, target))
      return !left.isEmpty
    }
    if !left.isEmpty { try report(ProvenDifferences(inFlight: left.count)) }
  }
}

extension RowVerdict {
  /// Returns the difference if source and target have different numbers of equal rows; nil if the numbers are equal.
  ///
  /// - Parameter balance: The number of equal rows at the source minus the number at the target.
  func difference(_ balance: Int, source: [Value]?, target: [Value]?) throws -> Difference? {
    guard balance != 0 else { return nil }
    var difference = try balance > 0 ? difference(source, nil) : difference(nil, target)
    difference?.times = abs(balance)
    return difference
  }
}
