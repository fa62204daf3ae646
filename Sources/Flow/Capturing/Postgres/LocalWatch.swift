import Changes
import CodecKit
import Glibc
import PostgresKit
import Synchronization
import SystemKit

/// Lets an apply wait until the trail of its own database has all commits that the database has now. The apply commits
/// a logical message, and capture reports when the trail is durable up to that message. Any thread may use a watch.
///
///     let watch = LocalWatch(uri: "postgresql://db.example/shop")
///     let mark = try watch.mark()
///     let reach = watch.wait(mark, stop, milliseconds: 1000)
package final class LocalWatch: Sendable {
  /// A logical message that the apply committed.
  package struct Mark: Equatable, Sendable {
    fileprivate static let word = "watch"
    @ByBytes private(set) var token: String
    /// The server's snapshot just before the message was written.
    package let moment: ServerMoment
    /// The number (`xid`) of the transaction that committed the message.
    package let transaction: UInt64

    fileprivate init(token: String, moment: ServerMoment, transaction: UInt64) {
      (self.token, self.moment, self.transaction) = (token, moment, transaction)
    }

    /// Parses `watch TOKEN MOMENT TRANSACTION`; nil for any other text.
    init?(_ text: String) {
      let parts = text.split(separator: " ")
      guard parts.count == 4, parts[0] == Self.word, let moment = ServerMoment(String(parts[2])),
        let transaction = UInt64(parts[3])
      else { return nil }
      self.init(token: String(parts[1]), moment: moment, transaction: transaction)
    }
  }
  /// The place of a message in the trail, up to which the trail is durable.
  package struct Reach: Equatable, Sendable {
    /// The number of the last transaction in the trail when capture read the message.
    package let number: UInt64
    package let position: Position
  }
  private struct Waiting {
    let arrival = StopSignal()
    var reach: Reach?
  }

  /// The longest wait for one message, ms. After that time, another message is committed.
  private static let patienceMilliseconds: Int32 = 5000

  private let uri: String
  private let session = Mutex<PostgresConnection?>(nil)
  private let waiting = Mutex<[String: Waiting]>([:])

  package init(uri: String) { self.uri = uri }

  /// Commits a logical message, and returns it. The caller must then call ``wait(_:_:milliseconds:)``.
  ///
  /// - Throws: ``PostgresError``.
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

  /// Waits until capture has read the message `mark`, and returns the message's place in the durable trail. Nil after
  /// `stop`, or if the given time is over.
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

  /// Waits until all commits made before this call are durable in the trail. Returns the logical message that was
  /// committed after those commits; nil after `stop`.
  package func catchUp(_ stop: StopSignal) throws -> Mark? {
    while !stop.isSet {
      let mark = try mark()
      if wait(mark, stop, milliseconds: Self.patienceMilliseconds) != nil { return mark }
    }
    return nil
  }

  func isAwaited(_ mark: Mark) -> Bool { waiting.withLock { $0[mark.token] != nil } }

  func reached(_ mark: Mark, _ reach: Reach) {
    waiting.withLock {
      $0[mark.token]?.reach = reach
      $0[mark.token]?.arrival.set()
    }
  }
}
