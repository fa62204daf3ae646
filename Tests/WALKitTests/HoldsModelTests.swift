import SQLiteFormat
import TestServers
import Testing

@testable import WALKit

/// `WALHolds` beside a model of SQLite's log: no order of steps loses a frame.
@Suite struct HoldsModelTests {
  /// Limits that make each decision possible within a few commits.
  private static var limits: WALHolds.Limits {
    var limits = WALHolds.Limits()
    (limits.windowFrames, limits.windowFramesMax, limits.windowCommits, limits.windowTime) = (2, 4, 1, 5)
    (limits.checkpointFrames, limits.checkpointQuiet, limits.markQuiet, limits.pauseQuiet) = (1, 5, 5, 5)
    return limits
  }

  private func model(commits: UInt8, checkpoints: UInt8, kills: UInt8, bug: Bool = false) -> LogModel {
    LogModel(
      commits: commits, checkpoints: checkpoints, kills: kills, hasResetBug: bug, holds: WALHolds(limits: Self.limits))
  }

  struct Found {
    var states = 0
    var holds: Set<WALHolds.Hold> = []
    var generations: UInt8 = 1
    var windows = 0
    var problem: String?
  }

  /// Looks at all states that can be reached, or at the first `most` of them.
  private func explore(_ first: LogModel, most: Int) -> Found {
    var found = Found()
    var known: Set<Int> = [first.hashValue]
    var open: [(state: LogModel, depth: Int)] = [(first, 0)]
    // The steps to the state that is being looked at.
    var path: [String] = []
    var trace: [(depth: Int, name: String)] = [(0, "start")]
    while let (state, depth) = open.popLast() {
      let (_, name) = trace.removeLast()
      path.removeSubrange(min(depth, path.count)...)
      path.append(name)
      found.states += 1
      found.holds.insert(state.holds.hold)
      found.generations = max(found.generations, state.head.generation)
      if state.holds.isWindow { found.windows += 1 }
      guard found.states < most else { return found }
      for (name, next, problem) in state.successors() {
        if let problem {
          found.problem = "\(problem) after: \((path + [name]).joined(separator: ", "))"
          return found
        }
        guard known.insert(next.hashValue).inserted else { continue }
        open.append((next, depth + 1))
        trace.append((depth + 1, name))
      }
    }
    return found
  }

  /// All orders of a few commits in a soak, or 20,000,000 states; otherwise the first states.
  @Test(arguments: [(UInt8(2), UInt8(0), UInt8(0)), (1, 1, 0), (1, 0, 1), (2, 1, 0), (3, 0, 0)])
  func `in all orders of steps no unread frame is lost`(commits: UInt8, checkpoints: UInt8, kills: UInt8) {
    let found = explore(
      model(commits: commits, checkpoints: checkpoints, kills: kills, bug: true), most: isSoak ? 20_000_000 : 40_000)
    if isSoak { print("model: \(commits) commits, \(checkpoints) checkpoints, \(kills) kills: \(found)") }
    #expect(found.problem == nil)
    #expect(found.states >= 40_000 && found.holds.contains(.rest))
    if isSoak, commits > 1, checkpoints == 0 {
      #expect(found.holds.count == 4 && found.generations > 2 && found.windows > 0)
    }
  }

  /// Random orders go deeper than all orders of a few commits.
  @Test func `in random orders of many steps no unread frame is lost`() {
    var holds: Set<WALHolds.Hold> = []
    var generations: UInt8 = 0
    for seed in Seeds.range(reduced: 300) {
      var random = Seeded(seed)
      var state = model(commits: 7, checkpoints: 8, kills: 2, bug: seed % 2 == 0)
      var path: [String] = []
      for _ in 0..<1500 {
        let all = state.successors()
        guard !all.isEmpty else { break }
        let (name, next, problem) = all[random.below(all.count)]
        path.append(name)
        guard problem == nil else {
          Issue.record("seed \(seed): \(problem ?? "") after \(path.suffix(60).joined(separator: ", "))")
          return
        }
        state = next
        holds.insert(state.holds.hold)
      }
      generations = max(generations, state.head.generation)
    }
    #expect(holds.count == 4 && generations > 4)
  }
}
