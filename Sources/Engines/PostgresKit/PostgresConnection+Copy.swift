import CPostgres
import Changes
import Glibc

extension PostgresConnection {
  // In one call of libpq.
  private static let sliceBytes = 1 << 20

  /// Runs a `COPY … TO STDOUT`, and calls `line` with each row. The bytes are valid only during the call. An error of
  /// `line` cancels the COPY.
  package func copyOut(_ sql: String, _ line: (UnsafeRawBufferPointer) throws -> Void) throws {
    try sendParameters(sql, [])
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

  // Source: https://github.com/postgres/postgres/blob/REL_15_STABLE/src/include/catalog/pg_type.dat
  static let textType: Oid = 25

  /// Runs one statement, and calls `body` with the fields of each row as it arrives; nil for NULL. The bytes are valid
  /// only during the call.
  ///
  ///     try connection.forEachRow("UPDATE t SET a = $1::date RETURNING id", ["2026-11-27"]) { ids.append($0[0]) }
  ///
  /// - Parameter texts: The parameters `$1…`, of type `text`.
  package func forEachRow(
    _ sql: String, _ texts: [String], _ body: ([UnsafeRawBufferPointer?]) -> Void
  ) throws {
    try sendParameters(sql, texts, areTexts: true)
    guard PQsetSingleRowMode(handle) == 1 else { throw failure(sql) }
    var fields: [UnsafeRawBufferPointer?] = []
    var error: PostgresError?
    while let result = try nextResult(sql) {
      defer { PQclear(result) }
      switch PQresultStatus(result) {
      case PGRES_SINGLE_TUPLE:
        fields.removeAll(keepingCapacity: true)
        for column in 0..<PQnfields(result) {
          let isNull = PQgetisnull(result, 0, column) == 1
          let count = Int(PQgetlength(result, 0, column))
          fields.append(isNull ? nil : UnsafeRawBufferPointer(start: PQgetvalue(result, 0, column), count: count))
        }
        body(fields)
      case PGRES_TUPLES_OK, PGRES_COMMAND_OK: break
      default: error = error ?? self.error(of: result, sql)
      }
    }
    if let error { throw error }
  }

  /// Stores values for a later COPY in the open transaction, because COPY takes no parameters.
  ///
  ///     try connection.bind([key], as: "after")
  ///     let term = PostgresConnection.bound("after", 0)  // current_setting('cairn.after_0')
  ///     try connection.copyOut("COPY (SELECT id FROM t WHERE id > \(term)::integer) TO STDOUT") { … }
  ///
  /// - Parameter name: The name under which ``bound(_:_:)`` finds the values: a constant word in Cairn's code.
  package func bind(_ values: [String], as name: String) throws {
    guard !values.isEmpty else { return }
    let settings = values.indices.map { "set_config('cairn.\(name)_\($0)', $\($0 + 1), true)" }
    try query("SELECT \(settings.joined(separator: ", "))", values)
  }

  /// Stores rows of values for a later COPY in the open transaction: each column as an array in a setting.
  package func bind(rows: [[String?]], as name: String) throws {
    guard let first = rows.first else { return }
    var parameters: [String?] = []
    let arrays = first.indices.map { column in
      let items = rows.map { row in
        parameters.append(row[column])
        return "$\(parameters.count)"
      }
      return "set_config('cairn.\(name)_\(column)', ARRAY[\(items.joined(separator: ","))]::text[]::text, true)"
    }
    try query("SELECT \(arrays.joined(separator: ", "))", parameters)
  }

  /// Returns the SQL expression, of type text, for a value stored for a COPY. `column` is the index of the value.
  package static func bound(_ name: String, _ column: Int) -> String { "current_setting('cairn.\(name)_\(column)')" }

  /// Returns the FROM item for rows that ``bind(rows:as:)`` stored: table `bound` with the text columns `c0`, `c1` and
  /// so on.
  package static func boundRows(_ name: String, _ columns: Int) -> String {
    let arrays = (0..<columns).map { "\(bound(name, $0))::text[]" }
    let names = (0..<columns).map { "c\($0)" }
    return "unnest(\(arrays.joined(separator: ", "))) AS bound(\(names.joined(separator: ", ")))"
  }

  /// Begins a `COPY … FROM STDIN`. Only ``sendCopy(_:isUrgent:)`` and then ``endCopy(giveUp:)`` may follow.
  package func beginCopyIn(_ sql: String) throws {
    try sendParameters(sql, [])
    try beginCopy(sql, PGRES_COPY_IN)
    // Nonblocking, so that a wait for a lock can be interrupted, and so that the server can work meanwhile.
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

  /// Sends bytes of COPY's text format. Returns whether all bytes are sent; later calls send the rest. If `isUrgent`,
  /// waits until all bytes are sent.
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

  /// Ends a COPY FROM, and returns the number of copied rows. If `giveUp` has a reason, the server drops the rows and
  /// the call throws.
  @discardableResult package func endCopy(giveUp reason: String? = nil) throws -> Int64 {
    guard PQputCopyEnd(handle, reason) == 1 else { throw failure("COPY") }
    try flush("COPY")
    _ = PQsetnonblocking(handle, 0)
    return try finish("COPY").touched
  }
}
