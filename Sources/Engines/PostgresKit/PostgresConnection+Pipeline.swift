import CPostgres
import Changes
import Glibc

/// A parameter of a statement: text in PostgreSQL's input form, which is passed to libpq without a copy; nil for NULL.
///
/// The bytes must end with a NUL that is not part of the text.
package typealias PostgresParameter = UnsafePointer<CChar>?

extension PostgresConnection {
  /// Begins a pipeline: many statements are sent before the first answer is read (`PQenterPipelineMode`), in one round
  /// trip.
  ///
  /// Queue statements with ``pipe(_:_:)`` and ``pipe(prepared:_:)``, then call ``drain(_:)``. In one explicit
  /// transaction, a failed statement makes the server skip the rest of the batch.
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

  /// Queues a statement in the pipeline whose parameters are arrays of texts.
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

  /// Asks the server to answer each queued statement as soon as it is done. So ``readAnswers(_:_:)`` need not wait for
  /// the end of the batch. Bytes that the server does not take at once are sent by ``tryFlush(_:)``, or when answers
  /// are read.
  package func pushPipeline() throws {
    guard PQsendFlushRequest(handle) == 1 else { throw failure("pipeline") }
    try tryFlush("pipeline")
  }

  /// Reads the answers to the next `count` statements; ``pushPipeline()`` must precede. Calls `answer` with each
  /// statement's number, from 0, and the number of rows that it changed; preparations count as statements. Throws the
  /// first error at once; ``drain(_:)`` must follow.
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

  /// Ends the batch and reads its answers, in order. Calls `answer` with each statement's number and the number of rows
  /// that it changed; preparations count as statements. Throws the first error, with its statement's number, after all
  /// answers are read.
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

  /// Sends queued bytes as far as the server takes them without a wait; returns whether all have been sent.
  @discardableResult package func tryFlush(_ sql: String) throws -> Bool {
    let rest = PQflush(handle)
    if rest < 0 { throw failure(sql) }
    return rest == 0
  }

  /// Sends all queued bytes, and reads arriving ones at the same time: otherwise both sides could wait for each other
  /// with full buffers.
  func flush(_ sql: String) throws {
    var isCancelled = false
    while try !tryFlush(sql) {
      try waitForServer(sql, sending: true, &isCancelled)
      guard PQconsumeInput(handle) == 1 else { throw failure(sql) }
    }
  }

  /// Sends all queued bytes, and waits until the server answers.
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

/// The error of the first failed statement of a batch, with its number in the batch, from 0.
package struct PostgresBatchError: Error {
  package let index: Int
  package let error: PostgresError
}
