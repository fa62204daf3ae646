import Changes
import CodecKit
import Glibc
import PostgresKit
import Synchronization
import SystemKit

/// Lets an apply wait until the trail of its own database has everything that was committed there before a moment.
///
/// In a session of its own, the apply commits a logical message. The capture, on its own thread, reads that message
/// after all earlier commits, makes the trail durable, and reports that to the watch. Any thread may use a watch.
package final class LocalWatch: Sendable {
  /// A logical message that was committed through the watch, and that the capture will read from the stream.
  package struct Mark: Equatable, Sendable {
    fileprivate static let word = "watch"
    @ByBytes private(set) var token: String
    /// The server's snapshot just before the message was written: it shows which transactions had ended by then.
    package let moment: ServerMoment
    /// The number (`xid`) of the transaction that committed the message.
    package let transaction: UInt64

    fileprivate init(token: String, moment: ServerMoment, transaction: UInt64) {
      (self.token, self.moment, self.transaction) = (token, moment, transaction)
    }

    /// Reads a message from its text, `watch TOKEN MOMENT TRANSACTION`; nil for any other text.
    init?(_ text: String) {
      let parts = text.split(separator: " ")
      guard parts.count == 4, parts[0] == Self.word, let moment = ServerMoment(String(parts[2])),
        let transaction = UInt64(parts[3])
      else { return nil }
      self.init(token: String(parts[1]), moment: moment, transaction: transaction)
    }
  }
  /// The place of a message in the trail. Everything committed before the message is durable in the trail up to there.
  package struct Reach: Equatable, Sendable {
    /// The number of the last transaction in the trail when capture read the message.
    package let number: UInt64
    package let position: Position
  }
  /// An apply's wait for one message. It ends when capture has read the message.
  private struct Waiting {
    let arrival = StopSignal()
    var reach: Reach?
  }

  /// The longest wait for one message, ms. After it, another message is committed: capture may have read the first one
  /// and ended before it reported that.
  private static let patienceMilliseconds: Int32 = 5000

  private let uri: String
  private let session = Mutex<PostgresConnection?>(nil)
  private let waiting = Mutex<[String: Waiting]>([:])

  package init(uri: String) { self.uri = uri }

  /// Commits a message, which the stream brings after everything that was committed before the call. The caller must
  /// then call ``wait(_:_:milliseconds:)`` with the result. Errors: ``PostgresError``.
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
            .bug, "\(PostgresConnection.place(of: uri)) does not report which transactions have ended",
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

  /// Waits until capture has read a message, and returns the message's place in the durable trail. Nil if `stop` was
  /// set first, or the time ran out.
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

  /// Waits until everything that had been committed before the call is durable in the trail. Returns the message that
  /// proved it; nil if `stop` was set first.
  package func catchUp(_ stop: StopSignal) throws -> Mark? {
    while !stop.isSet {
      let mark = try mark()
      if wait(mark, stop, milliseconds: Self.patienceMilliseconds) != nil { return mark }
    }
    return nil
  }

  /// Returns whether an apply waits for this message. Capture calls it.
  func isAwaited(_ mark: Mark) -> Bool { waiting.withLock { $0[mark.token] != nil } }

  /// Reports that capture has read the message, and that the trail is durable up to it.
  func reached(_ mark: Mark, _ reach: Reach) {
    waiting.withLock {
      $0[mark.token]?.reach = reach
      $0[mark.token]?.arrival.set()
    }
  }
}
