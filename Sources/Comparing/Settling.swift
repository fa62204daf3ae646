import Changes
import Mapping
import PostgresKit
import SystemKit

/// What became of suspects.
struct Settlement {
  var differences: [Difference] = []
  /// Rows of which nothing could be proven.
  var inFlight = 0
}

/// Tells differences from rows that are on their way.
protocol Settling {
  /// Judges rows with a key.
  func settle(_ look: RowLook, _ verdict: RowVerdict, keyed: [Suspect]) throws -> Settlement
  /// Judges rows that are told apart by all their values.
  func settle(_ look: RowLook, _ verdict: RowVerdict, whole: [Suspect]) throws -> Settlement
}

/// Without a trail, nobody knows what is on its way: what stays the same, and unequal, is a difference.
struct SettlingByLooks: Settling {
  private static let pausesMilliseconds: [Int32] = [50, 300, 1000]
  let stop: StopSignal

  func settle(_ look: RowLook, _ verdict: RowVerdict, keyed suspects: [Suspect]) throws -> Settlement {
    var left = suspects
    var before: [UInt64: [[Value]?]] = [:]
    var settlement = Settlement()
    for pause in [0] + Self.pausesMilliseconds where !left.isEmpty {
      if pause > 0, stop.wait(milliseconds: pause) { break }
      let (source, target) = (try look.rows(.source, left), try look.rows(.target, left))
      var seen: [UInt64: [[Value]?]] = [:]
      var changing: [Suspect] = []
      for suspect in left {
        let pair = [source[suspect.hash], target[suspect.hash]]
        guard let difference = try verdict.difference(pair[0], pair[1]) else { continue }
        if before[suspect.hash] == pair {
          settlement.differences.append(difference)
        } else {
          seen[suspect.hash] = pair
          changing.append(suspect)
        }
      }
      (left, before) = (changing, seen)
    }
    settlement.inFlight = left.count
    return settlement
  }

  func settle(_ look: RowLook, _ verdict: RowVerdict, whole suspects: [Suspect]) throws -> Settlement {
    var left = Set(suspects.map(\.hash))
    var before: [UInt64: [Int]] = [:]
    var settlement = Settlement()
    for pause in [0] + Self.pausesMilliseconds where !left.isEmpty {
      if pause > 0, stop.wait(milliseconds: pause) { break }
      let (source, target) = (try look.counts(.source, left), try look.counts(.target, left))
      var seen: [UInt64: [Int]] = [:]
      for hash in left {
        let pair = [source[hash]?.count ?? 0, target[hash]?.count ?? 0]
        if pair[0] == pair[1] { continue }
        guard before[hash] == pair else {
          seen[hash] = pair
          continue
        }
        settlement.differences += try verdict.differences(
          pair[0] - pair[1], source: source[hash]?.row, target: target[hash]?.row)
      }
      (left, before) = (Set(seen.keys), seen)
    }
    settlement.inFlight = left.count
    return settlement
  }
}

extension RowVerdict {
  /// One difference for each row that one end has more often than the other; `balance` is negative for the target.
  func differences(_ balance: Int, source: [Value]?, target: [Value]?) throws -> [Difference] {
    let one = try balance > 0 ? difference(source, nil) : difference(nil, target)
    return one.map { Array(repeating: $0, count: abs(balance)) } ?? []
  }
}
