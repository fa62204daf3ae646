import CPostgres
import Changes
import Glibc

/// A parameter of a statement, as text that ends with a NUL and is not copied; nil for NULL.
package typealias PostgresParameter = UnsafePointer<CChar>?

extension PostgresConnection {
  /// Begins a pipeline, in which many statements are sent before the first answer is read. Queue statements with
  /// ``pipe(_:_:)``, then call ``drain(_:)``.
  ///
  /// Source: https://www.postgresql.org/docs/15/libpq-pipeline-mode.html
  package func enterPipeline() throws {
    guard PQenterPipelineMode(handle) == 1 else { throw failure("pipeline") }
    _ = PQsetnonblocking(handle, 1)
  }

  package func exitPipeline() throws {
    _ = PQsetnonblocking(handle, 0)
    guard PQexitPipelineMode(handle) == 1 else { throw failure("pipeline") }
  }

  /// Queues the preparation of a statement in the pipeline.
  package func pipe(prepare name: String, _ sql: String) throws {
    try refuseNUL(sql, [])
    guard PQsendPrepare(handle, name, sql, 0, nil) == 1 else { throw failure(sql) }
  }

  /// Queues a statement in the pipeline, with its parameters.
  package func pipe(_ sql: String, _ parameters: [PostgresParameter]) throws {
    try refuseNUL(sql, [])
    guard PQsendQueryParams(handle, sql, Int32(parameters.count), nil, parameters, nil, nil, 0) == 1 else {
      throw failure(sql)
    }
  }

  /// Queues an execution of a prepared statement in the pipeline.
  package func pipe(prepared name: String, _ parameters: [PostgresParameter]) throws {
    guard PQsendQueryPrepared(handle, name, Int32(parameters.count), parameters, nil, nil, 0) == 1 else {
      throw failure(name)
    }
  }

  /// Queues a statement in the pipeline, with arrays of texts as parameters.
  package func pipe(_ sql: String, _ arrays: borrowing PostgresArrays) throws {
    try refuseNUL(sql, [])
    let count = arrays.count
    let isSent = arrays.withParameters { values, lengths in
      PQsendQueryParams(
        handle, sql, Int32(count), Array(repeating: PostgresArrays.textArrayType, count: count), values, lengths,
        Array(repeating: 1, count: count), 0)
    }
    guard isSent == 1 else { throw failure(sql) }
  }

  /// Asks the server to send the answers to the queued statements without waiting for the pipeline's end.
  package func pushPipeline() throws {
    guard PQsendFlushRequest(handle) == 1 else { throw failure("pipeline") }
    try tryFlush("pipeline")
  }

  /// Reads the answers to the next `count` statements, after ``pushPipeline()``. `answer` gets each statement's number,
  /// from 0, and its number of changed rows.
  package func readAnswers(_ count: Int, _ answer: (Int, Int64) -> Void) throws {
    var index = 0
    while index < count {
      try pump()
      guard let result = PQgetResult(handle) else {
        index += 1
        if PQstatus(handle) != CONNECTION_OK { throw failure("pipeline") }
        continue
      }
      defer { PQclear(result) }
      switch PQresultStatus(result) {
      case PGRES_COMMAND_OK, PGRES_TUPLES_OK: answer(index, Self.touched(result))
      default: throw PostgresBatchError(index: index, error: error(of: result, ""))
      }
    }
  }

  /// Reads the answers to all queued statements. `answer` gets each statement's number, from 0, and its number of
  /// changed rows. If a statement fails, the server skips the statements after it, and the error is thrown at the end.
  package func drain(_ answer: (Int, Int64) throws -> Void) throws {
    guard PQpipelineSync(handle) == 1 else { throw failure("pipeline") }
    var index = 0
    var failed: (any Error)?
    while true {
      try pump()
      guard let result = PQgetResult(handle) else {
        // The end of the results of one statement.
        index += 1
        if PQstatus(handle) != CONNECTION_OK { throw failed ?? failure("pipeline") }
        continue
      }
      defer { PQclear(result) }
      switch PQresultStatus(result) {
      case PGRES_PIPELINE_SYNC:
        if let failed { throw failed }
        return
      case PGRES_PIPELINE_ABORTED: break
      case PGRES_COMMAND_OK, PGRES_TUPLES_OK:
        do { if failed == nil { try answer(index, Self.touched(result)) } } catch { failed = error }
      default:
        if failed == nil { failed = PostgresBatchError(index: index, error: error(of: result, "")) }
      }
    }
  }

  /// Sends queued bytes as far as the server takes them without a wait. Returns whether all are sent.
  @discardableResult package func tryFlush(_ sql: String) throws -> Bool {
    let rest = PQflush(handle)
    if rest < 0 { throw failure(sql) }
    return rest == 0
  }

  /// Sends all queued bytes, and reads bytes that the server sends meanwhile.
  func flush(_ sql: String) throws {
    var isCancelled = false
    while try !tryFlush(sql) {
      try waitForServer(sql, sending: true, &isCancelled)
      guard PQconsumeInput(handle) == 1 else { throw failure(sql) }
    }
  }

  private func pump() throws {
    var isCancelled = false
    while true {
      let isSent = try tryFlush("pipeline")
      guard !isSent || PQisBusy(handle) == 1 else { return }
      try waitForServer("pipeline", sending: !isSent, &isCancelled)
      guard PQconsumeInput(handle) == 1 else { throw failure("pipeline") }
    }
  }
}

/// The error of the first failed statement in a pipeline, with the statement's number, from 0.
package struct PostgresBatchError: Error {
  package let index: Int
  package let error: PostgresError
}
