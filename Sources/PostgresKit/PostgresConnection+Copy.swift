import CPostgres
import Changes
import Glibc

extension PostgresConnection {
  /// Of what COPY sends, so much is in libpq's hands at a time.
  private static let sliceBytes = 1 << 20

  /// Runs a `COPY … TO STDOUT`; `line` gets each row as the server sends it, without copying: with COPY's text format a
  /// line and its line feed. Valid only during the call. An error of `line` cancels the COPY. Statements may stand before
  /// it, in one transaction with it.
  package func copyOut(_ sql: String, _ line: (UnsafeRawBufferPointer) throws -> Void) throws {
    guard PQsendQuery(handle, sql) == 1 else { throw failure(sql) }
    try beginCopy(sql, PGRES_COPY_OUT)
    var buffer: UnsafeMutablePointer<CChar>?
    while true {
      let count = PQgetCopyData(handle, &buffer, 0)
      guard count > 0 else {
        if count == -2 { throw failure(sql) }
        break
      }
      defer { PQfreemem(buffer) }
      do { try line(UnsafeRawBufferPointer(start: buffer, count: Int(count))) } catch {
        cancel()
        while PQgetCopyData(handle, &buffer, 0) > 0 { PQfreemem(buffer) }
        _ = try? finish(sql)
        throw error
      }
    }
    _ = try finish(sql)
  }

  /// Begins a `COPY … FROM STDIN`; then ``sendCopy(_:isUrgent:)``, then ``endCopy(giveUp:)``, and nothing else between.
  package func beginCopyIn(_ sql: String) throws {
    guard PQsendQuery(handle, sql) == 1 else { throw failure(sql) }
    try beginCopy(sql, PGRES_COPY_IN)
    // So that a wait for a lock on the way can be ended, and the server be left to work meanwhile.
    _ = PQsetnonblocking(handle, 1)
  }

  private func beginCopy(_ sql: String, _ wanted: ExecStatusType) throws {
    while let result = try nextResult(sql) {
      defer { PQclear(result) }
      switch PQresultStatus(result) {
      case wanted: return
      case PGRES_COMMAND_OK, PGRES_TUPLES_OK: continue
      default:
        let error = error(of: result, sql)
        _ = try? finish(sql)
        throw error
      }
    }
    throw failure(sql)
  }

  /// Sends bytes of COPY's text format; row borders need not be kept. What the server thinks of them is told at the end.
  ///
  /// Returns whether all has left. What has not, leaves with later calls: with `isUrgent` this one waits for that.
  @discardableResult
  package func sendCopy(_ bytes: UnsafeRawBufferPointer, isUrgent: Bool = true) throws -> Bool {
    for start in stride(from: 0, to: bytes.count, by: Self.sliceBytes) {
      let slice = UnsafeRawBufferPointer(rebasing: bytes[start..<min(bytes.count, start + Self.sliceBytes)])
      guard PQputCopyData(handle, slice.baseAddress?.assumingMemoryBound(to: CChar.self), Int32(slice.count)) == 1
      else { throw failure("COPY") }
      if isUrgent { try flush("COPY") }
    }
    return try isUrgent || tryFlush("COPY")
  }

  /// Ends a COPY FROM; with a reason, the server throws it away. Returns the rows that were copied.
  @discardableResult package func endCopy(giveUp reason: String? = nil) throws -> Int64 {
    guard PQputCopyEnd(handle, reason) == 1 else { throw failure("COPY") }
    try flush("COPY")
    _ = PQsetnonblocking(handle, 0)
    return try finish("COPY").touched
  }
}
