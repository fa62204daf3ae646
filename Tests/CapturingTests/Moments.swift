import Changes
import SQLiteKit
import SystemKit
import Synchronization

/// The moments of a capture at which a test steps in. Each look of a capture asks the time twice. It asks once when its
/// snapshot is taken and nothing was read yet. It asks again when everything was read and nothing is in the trail yet.
final class Moments: Sendable {
  enum Moment: Sendable {
    case snapshotTaken
    case everythingRead
  }
  private let action = Mutex<(@Sendable (Moment) throws -> Void)?>(nil)
  private let state = Mutex<(asked: Int, failure: (any Error)?)>((0, nil))

  var clock: Clock {
    Clock { [self] in
      let count = state.withLock {
        $0.asked += 1
        return $0.asked
      }
      let action = action.withLock { $0 }
      do { try action?(count % 2 == 1 ? .snapshotTaken : .everythingRead) } catch {
        state.withLock { $0.failure = $0.failure ?? error }
      }
      return Clock.system.microseconds()
    }
  }

  /// From now on, `body` is called at each moment, in the middle of the capture.
  func at(_ body: @escaping @Sendable (Moment) throws -> Void) {
    action.withLock { $0 = body }
    state.withLock { $0.asked = 0 }
  }

  /// How many looks found something since ``at(_:)``; throws what its body threw.
  func looks() throws -> Int {
    let (asked, failure) = state.withLock { ($0.asked, $0.failure) }
    if let failure { throw failure }
    return (asked + 1) / 2
  }
}

/// Runs statements on a connection of its own, which is closed again.
func execute(_ path: String, _ sql: String) throws { try Database(ofProgram: path).executeScript(sql) }

/// Statements, handed out one by one.
final class Script: Sendable {
  private let rest: Mutex<[String]>
  init(_ statements: [String]) { rest = Mutex(statements.reversed()) }
  func next() -> String? { rest.withLock { $0.popLast() } }
}
