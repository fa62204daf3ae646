import Changes
import Synchronization
import SystemKit

/// Skips a statement's changes in the trail on a separate thread, while the target executes the statement.
final class RowsPassed: @unchecked Sendable {
  private let reader: ApplyReader
  private let statements: StatementSession
  private let isExecuted = Atomic<Bool>(false)
  private var next: Result<Record?, any Error> = .success(nil)

  private init(_ reader: ApplyReader, _ statements: StatementSession) {
    (self.reader, self.statements) = (reader, statements)
  }

  /// Calls `execute` while another thread skips the statement's changes. Returns the result, and the first record after
  /// these changes.
  ///
  /// The record is nil if the thread did not reach it. The caller then skips the changes that remain.
  static func passing<T>(
    _ reader: ApplyReader, _ statements: StatementSession, while execute: () throws -> T
  ) throws -> (T, next: Record?) {
    let rows = RowsPassed(reader, statements)
    // Without a thread, the caller skips the changes afterwards.
    let thread = try? WorkerThread { rows.pass() }
    let result = Result { try execute() }
    rows.isExecuted.store(true, ordering: .relaxed)
    _ = thread?.join()
    return (try result.get(), try rows.next.get())
  }

  private func pass() {
    next = Result {
      while !isExecuted.load(ordering: .relaxed), let record = try reader.next() {
        guard case .change(let change) = record, try statements.passes(change, reader) else { return record }
      }
      return nil
    }
  }
}
