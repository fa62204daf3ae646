import Foundation

/// The seeds of random tests. `CAIRN_SEEDS` says how many of each test run; without it, a soak runs 1,000. `CAIRN_SEED`
/// runs one alone.
package enum Seeds {
  package static let given = number("CAIRN_SEED")
  private static let wanted = number("CAIRN_SEEDS") ?? (isSoak ? 1000 : nil)
  private static let first = UInt64.random(in: 0..<1_000_000)

  /// Whether a test runs the few seeds that it has itself.
  package static var isReduced: Bool { given == nil && wanted == nil }

  /// The same ones in each run.
  package static func range(from first: UInt64 = 1, reduced: UInt64) -> [UInt64] {
    given.map { [$0] } ?? (0..<(wanted ?? reduced)).map { first + $0 }
  }

  /// Other ones in each run. A test has to print the one that fails.
  package static func drawn(reduced: UInt64) -> [UInt64] { range(from: first, reduced: reduced) }

  /// These in a reduced run, and otherwise ones that are drawn.
  package static func drawn(reduced: [UInt64]) -> [UInt64] { isReduced ? reduced : drawn(reduced: 0) }

  /// Half of these in a reduced run, other ones in each run; all of them otherwise.
  package static func half<T>(of all: [T]) -> [T] {
    guard isReduced else { return all }
    let drawn = all.indices.shuffled().prefix((all.count + 1) / 2).sorted()
    return drawn.map { all[$0] }
  }

  private static func number(_ name: String) -> UInt64? {
    ProcessInfo.processInfo.environment[name].flatMap { UInt64($0) }
  }
}
