import Synchronization

/// A lock for two parties, which get it in turn if both ask for it. No call waits. A refused party gets the next turn
/// if it asks again within 100 ms.
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
    var last: Party?
    // The party that gets the lock next, unless it does not ask again before `until`, in ms of a monotonic clock.
    var asking: (party: Party, until: Int64)?
  }

  private static let patienceMilliseconds: Int64 = 100
  private let state = Mutex(State())

  package init() {}

  /// Takes the lock. Returns false if it is held, or if it is the other party's turn.
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

  package func unlock(_ party: Party) { state.withLock { if $0.holder == party { $0.holder = nil } } }
}
