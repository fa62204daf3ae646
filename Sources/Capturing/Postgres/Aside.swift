import Changes
import PostgresKit
import Synchronization
import SystemKit

/// What applies and the capture of their database tell each other of a capture that stands aside. Any thread may ask.
final class Aside: Sendable {
  private enum State { case none, isWanted, hasBegun }

  private struct Said {
    var state = State.none
    var sessions: Set<Int32> = []
    var applied: [UInt64: AppliedNote] = [:]
    var notBefore: Int64 = 0
    /// Ends it.
    var bell = StopSignal()
  }

  private let said = Mutex(Said())
  private let pauseMilliseconds: Int64

  init(pauseMilliseconds: Int64) { self.pauseMilliseconds = pauseMilliseconds }

  // MARK: Of applies

  /// False where it stands aside already, or is not to.
  func ask(for session: Int32) -> Bool {
    said.withLock {
      guard $0.state != .hasBegun, Clock.monotonicMilliseconds >= $0.notBefore else {
        $0.sessions.insert(session)
        return false
      }
      $0.state = .isWanted
      $0.sessions = [session]
      return true
    }
  }

  /// It did not come to that: it is not asked again at once, as who asks waits.
  func cease() {
    said.withLock {
      guard $0.state == .isWanted else { return }
      ($0.state, $0.notBefore) = (.none, Clock.monotonicMilliseconds + pauseMilliseconds)
    }
  }

  var hasBegun: Bool { said.withLock { $0.state == .hasBegun } }

  /// Somebody waits for a message in the stream.
  func noteMark() { said.withLock { if $0.state == .hasBegun { $0.bell.set() } } }

  func note(_ transaction: UInt64, _ note: AppliedNote) {
    said.withLock {
      if $0.state == .hasBegun { $0.applied[transaction] = note }
    }
  }

  // MARK: Of the capture

  /// Whether an apply has asked for it; then it begins.
  func begin() -> Bool {
    said.withLock {
      guard $0.state == .isWanted else { return false }
      ($0.state, $0.bell) = (.hasBegun, StopSignal())
      return true
    }
  }

  /// `isCalled`: programs write as well, and may do so again.
  func end(isCalled: Bool) {
    said.withLock {
      ($0.state, $0.sessions, $0.applied) = (.none, [], [:])
      if isCalled { $0.notBefore = Clock.monotonicMilliseconds + pauseMilliseconds }
    }
  }

  /// Set when somebody waits for a message.
  var bell: StopSignal { said.withLock { $0.bell } }
  /// Whose transactions run without having been noted.
  var sessions: Set<Int32> { said.withLock { $0.sessions } }
  var applied: [UInt64: AppliedNote] { said.withLock { $0.applied } }
  func forget(_ transactions: [UInt64]) {
    said.withLock { for number in transactions { $0.applied[number] = nil } }
  }
}
