import Synchronization

/// A lock for two parties. A party that releases the lock lets the other one go first, if that one has asked for the
/// lock.
///
/// No call waits. A party that does not get the lock must ask again soon, or it loses its turn.
///
///     let turns = AlternatingLock()
///     turns.tryLock(.reader)    // true
///     turns.tryLock(.writer)    // false: the reader has it
///     turns.unlock(.reader)
///     turns.tryLock(.reader)    // false: it is the writer's turn
package final class AlternatingLock: Sendable {
  package enum Party: Sendable { case reader, writer }

  private struct State {
    var holder: Party?
    /// The party that had the lock last.
    var last: Party?
    /// The party that asked for the lock and did not get it. It loses its turn at `until`, in ms of a monotonic clock,
    /// unless it asks again.
    var asking: (party: Party, until: Int64)?
  }

  /// The time in milliseconds after which a party that does not ask again loses its turn.
  private static let patienceMilliseconds: Int64 = 100
  private let state = Mutex(State())

  package init() {}

  /// Takes the lock. Returns false if a party has it already, or if it is the other party's turn.
  ///
  /// - Parameter now: The time of a clock that never jumps, in ms.
  package func tryLock(_ party: Party, now: Int64 = Clock.monotonicMilliseconds) -> Bool {
    state.withLock { state in
      let isOthersTurn = state.last == party && state.asking.map { $0.party != party && now < $0.until } ?? false
      guard state.holder == nil, !isOthersTurn else {
        if state.holder != party, state.holder != nil || state.asking?.party == party {
          state.asking = (party, now + Self.patienceMilliseconds)
        }
        return false
      }
      (state.holder, state.last) = (party, party)
      if state.asking?.party == party { state.asking = nil }
      return true
    }
  }

  /// Gives the lock back. Does nothing if the party does not have it.
  package func unlock(_ party: Party) { state.withLock { if $0.holder == party { $0.holder = nil } } }
}
