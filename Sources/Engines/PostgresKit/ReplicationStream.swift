import CPostgres
import Changes
import Glibc
import SystemKit

/// A stream of the replication protocol from one logical slot.
///
/// Source: https://www.postgresql.org/docs/15/protocol-replication.html
///
///     let stream = try ReplicationStream(connection, slot: "cairn_1a2b", publication: "cairn_1a2b")
///     if case .data(let bytes) = try stream.next(milliseconds: 1000) { print(try PgOutput(bytes)) }
package final class ReplicationStream {
  package enum Event {
    /// A message of the output plugin, valid until the next call.
    case data(UnsafeRawBufferPointer)
    /// A message without data. Every transaction that committed before `end` has been sent.
    case keepalive(end: LSN, wantsReply: Bool)
    case nothing
  }

  /// The maximum size, in bytes, of a message for which libpq's buffer may stay allocated.
  package static let usualBytes = 64 << 20
  /// Whether a message exceeded 64 MiB. Only a new connection then frees libpq's memory.
  package private(set) var hasGrown = false

  private let connection: PostgresConnection
  private var buffer: UnsafeMutablePointer<CChar>?
  // Since the socket was last empty.
  private var runLength = 0
  private static let runLengthMin = 32
  // The pause before the socket is read again costs both ends less than to wake up for each message.
  private static let gatherMicroseconds: UInt32 = 200

  /// Starts the stream at the slot's confirmed position. Throws ``PostgresError``, with SQLSTATE 55006 if the slot is
  /// in use.
  package init(_ connection: PostgresConnection, slot: String, publication: String) throws {
    self.connection = connection
    let sql =
      "START_REPLICATION SLOT \(slot.quotedName) LOGICAL 0/0 (proto_version '1', publication_names \(publication.quotedName.quotedText), messages 'true')"
    guard PQsendQuery(connection.handle, sql) == 1 else { throw connection.failure(sql) }
    guard let result = try connection.nextResult(sql) else { throw connection.failure(sql) }
    defer { PQclear(result) }
    guard PQresultStatus(result) == PGRES_COPY_BOTH else {
      let error = connection.error(of: result, sql)
      _ = try? connection.finish(sql)
      throw error
    }
  }

  deinit { PQfreemem(buffer) }

  /// Returns the next event. Waits for up to `milliseconds`, or until the descriptor `interrupt` is readable.
  package func next(milliseconds: Int32, interrupt: Int32 = -1) throws -> Event {
    Pulse.beat()
    PQfreemem(buffer)
    buffer = nil
    var count = PQgetCopyData(connection.handle, &buffer, 1)
    if count == 0 {
      if runLength >= Self.runLengthMin { usleep(Self.gatherMicroseconds) }
      runLength = 0
      if milliseconds != 0 {
        var entries = [
          pollfd(fd: PQsocket(connection.handle), events: Int16(POLLIN), revents: 0),
          pollfd(fd: interrupt, events: Int16(POLLIN), revents: 0),
        ]
        guard entries[0].fd >= 0 else { throw connection.failure("START_REPLICATION") }
        if poll(&entries, 2, milliseconds) <= 0 || entries[0].revents == 0 { return .nothing }
      }
      guard PQconsumeInput(connection.handle) == 1 else { throw connection.failure("START_REPLICATION") }
      count = PQgetCopyData(connection.handle, &buffer, 1)
      if count == 0 { return .nothing }
    }
    guard count > 0 else { throw ended() }
    if Int(count) > Self.usualBytes { hasGrown = true }
    runLength += 1
    return try decode(UnsafeRawBufferPointer(start: buffer, count: Int(count)))
  }

  /// Ends the stream, so that the slot is free. A later stream sends unconfirmed messages again.
  package func end() throws {
    let sql = "START_REPLICATION"
    guard PQputCopyEnd(connection.handle, nil) == 1 else { throw connection.failure(sql) }
    var isCancelled = false
    while true {
      PQfreemem(buffer)
      buffer = nil
      let count = PQgetCopyData(connection.handle, &buffer, 1)
      if count < 0 { break }
      guard count == 0 else { continue }
      guard PQflush(connection.handle) >= 0 else { throw connection.failure(sql) }
      try connection.waitForServer(sql, &isCancelled)
      guard PQconsumeInput(connection.handle) == 1 else { throw connection.failure(sql) }
    }
    _ = try connection.finish(sql)
  }

  // The server may also have ended the stream to shut down.
  private func ended() -> any Error {
    do { _ = try connection.finish("START_REPLICATION") } catch { return error }
    return PostgresError(
      sqlState: "57P01", message: "the server ended the replication stream", place: connection.place,
      isConnectionLost: true)
  }

  private func decode(_ bytes: UnsafeRawBufferPointer) throws -> Event {
    guard let kind = bytes.first else { return .nothing }
    switch kind {
    // XLogData: start and end of WAL, time of sending, then the plugin's message.
    case UInt8(ascii: "w") where bytes.count >= 25: return .data(UnsafeRawBufferPointer(rebasing: bytes[25...]))
    case UInt8(ascii: "k") where bytes.count >= 18:
      let end = UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 1, as: UInt64.self))
      return .keepalive(end: LSN(end), wantsReply: bytes[17] != 0)
    default:
      throw PostgresError(
        sqlState: "08P01", message: "a replication message of kind \(kind) is not understood",
        place: connection.place, isConnectionLost: true)
    }
  }

  /// Reports positions in the log to the server, which may delete everything before `flushed`.
  package func report(received: LSN, flushed: LSN, wantsReply: Bool = false) throws {
    var message: [UInt8] = []
    message.reserveCapacity(34)
    message.append(UInt8(ascii: "r"))
    // Written, flushed, applied; then the time, µs since 2000, which the server only displays.
    for value in [received.value, flushed.value, flushed.value, UInt64(bitPattern: Self.now())] {
      withUnsafeBytes(of: value.bigEndian) { message.append(contentsOf: $0) }
    }
    message.append(wantsReply ? 1 : 0)
    let sent = message.withUnsafeBytes {
      PQputCopyData(connection.handle, $0.baseAddress?.assumingMemoryBound(to: CChar.self), Int32($0.count))
    }
    guard sent == 1, PQflush(connection.handle) == 0 else { throw connection.failure("standby status update") }
  }

  private static func now() -> Int64 {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return PostgresTime.fromUnix(Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000)
  }
}

/// Converts between PostgreSQL's time, µs since 2000-01-01, and Cairn's time, µs since 1970-01-01.
package enum PostgresTime {
  private static let offset: Int64 = 946_684_800_000_000
  package static func fromUnix(_ microseconds: Int64) -> Int64 { microseconds - offset }
  package static func toUnix(_ microseconds: Int64) -> Int64 { microseconds + offset }
}
