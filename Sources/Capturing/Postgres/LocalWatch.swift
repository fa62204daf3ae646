import Changes
import CodecKit
import Glibc
import PostgresKit
import Synchronization
import SystemKit

/// Tells an apply when the trail of its own database holds everything that was committed there before.
///
/// It commits a message in a session of its own; the capture, on its own thread, meets that message behind all those
/// commits, makes the trail durable and says so here. Any thread may ask.
package final class LocalWatch: Sendable {
  /// A message that was committed.
  package struct Mark: Equatable, Sendable {
    fileprivate static let word = "watch"
    @ByBytes private(set) var token: String
    /// What had ended on the server before it.
    package let moment: ServerMoment
    /// Its transaction, as the server counts them.
    package let transaction: UInt64

    fileprivate init(token: String, moment: ServerMoment, transaction: UInt64) {
      (self.token, self.moment, self.transaction) = (token, moment, transaction)
    }

    /// Reads the printed form, `watch TOKEN MOMENT TRANSACTION`; nil when `text` is not one.
    init?(_ text: String) {
      let parts = text.split(separator: " ")
      guard parts.count == 4, parts[0] == Self.word, let moment = ServerMoment(String(parts[2])),
        let transaction = UInt64(parts[3])
      else { return nil }
      self.init(token: String(parts[1]), moment: moment, transaction: transaction)
    }
  }
  /// Durable in the trail, with all that the source committed before.
  package struct Reach: Equatable, Sendable {
    /// The trail's last transaction.
    package let number: UInt64
    package let position: Position
  }
  /// Who waits for a message: woken when it was met.
  private struct Waiting {
    let arrival = StopSignal()
    var reach: Reach?
  }

  /// A capture that ended behind the message has not told: it is asked again.
  private static let patienceMilliseconds: Int32 = 5000

  private let uri: String
  private let session = Mutex<PostgresConnection?>(nil)
  private let waiting = Mutex<[String: Waiting]>([:])

  package init(uri: String) { self.uri = uri }

  /// Commits a message behind everything that was committed before the call. Every mark is to be waited for. Errors:
  /// ``PostgresError``.
  package func mark() throws -> Mark {
    let token = randomBytes(16).hex
    waiting.withLock { $0[token] = Waiting() }
    do {
      return try commit(token)
    } catch {
      waiting.withLock { $0[token] = nil }
      throw error
    }
  }

  private func commit(_ token: String) throws -> Mark {
    try session.withLock { session in
      if session?.isUsable != true {
        let opened = try PostgresConnection(uri)
        // The stream has a commit only once it is durable.
        try opened.executeScript("SET synchronous_commit = on; SET statement_timeout = 0")
        session = opened
      }
      do {
        let row = try session?.query(
          """
          WITH mark(text) AS MATERIALIZED (SELECT concat_ws(' ', $2::text, pg_current_snapshot(), pg_current_xact_id()))
          SELECT text, pg_logical_emit_message(true, $1, text) FROM mark
          """, [PostgresCapture.barrierPrefix, "\(Mark.word) \(token)"]
        ).first
        guard let text = row?[0], let mark = Mark(text) else {
          throw CairnError(
            .bug, "\(PostgresConnection.place(of: uri)) does not tell which transactions have ended",
            hint: "please report this",
            remedy: .bug)
        }
        return mark
      } catch {
        session = nil
        throw error
      }
    }
  }

  /// How far the trail is durable behind the message; nil when `stop` was set first, or so many milliseconds have passed.
  package func wait(_ mark: Mark, _ stop: StopSignal, milliseconds: Int32) -> Reach? {
    let token = mark.token
    guard let arrival = waiting.withLock({ $0[token]?.arrival }) else { return nil }
    let limit = Clock.monotonicMilliseconds + Int64(milliseconds)
    while !arrival.isSet, !stop.isSet {
      let left = limit - Clock.monotonicMilliseconds
      guard left > 0 else { break }
      var entries = [
        pollfd(fd: arrival.descriptor, events: Int16(POLLIN), revents: 0),
        pollfd(fd: stop.descriptor, events: Int16(POLLIN), revents: 0),
      ]
      _ = poll(&entries, 2, Int32(clamping: min(left, 1000)))
      Pulse.beat()
    }
    return waiting.withLock { $0.removeValue(forKey: token)?.reach }
  }

  /// Returns when the trail holds, durably, all that had been committed before the call; nil when `stop` was set first.
  package func catchUp(_ stop: StopSignal) throws -> Mark? {
    while !stop.isSet {
      let mark = try mark()
      if wait(mark, stop, milliseconds: Self.patienceMilliseconds) != nil { return mark }
    }
    return nil
  }

  /// Of the capture: whether somebody waits for this message.
  func isAwaited(_ mark: Mark) -> Bool { waiting.withLock { $0[mark.token] != nil } }

  /// The capture has met the message, and the trail is durable up to there.
  func reached(_ mark: Mark, _ reach: Reach) {
    waiting.withLock {
      $0[mark.token]?.reach = reach
      $0[mark.token]?.arrival.set()
    }
  }
}
