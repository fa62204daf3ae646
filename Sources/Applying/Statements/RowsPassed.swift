import Changes
import Synchronization
import SystemKit

/// Passes over the changes of a statement while the statement is executed, on a thread of its own: what it takes to unpack and
/// check a million rows of the trail is done by then. The trail is its alone meanwhile.
final class RowsPassed: @unchecked Sendable {
  private let reader: ApplyReader
  private let statements: StatementDesk
  private let isExecuted = Atomic<Bool>(false)
  private var next: Result<Record?, any Error> = .success(nil)

  private init(_ reader: ApplyReader, _ statements: StatementDesk) {
    (self.reader, self.statements) = (reader, statements)
  }

  /// Calls `execute`. Returns besides the record that was read last, if it is none to be passed over.
  static func passing<T>(
    _ reader: ApplyReader, _ statements: StatementDesk, while execute: () throws -> T
  ) throws -> (T, next: Record?) {
    let rows = RowsPassed(reader, statements)
    let thread = WorkerThread { rows.pass() }
    let result = Result { try execute() }
    rows.isExecuted.store(true, ordering: .relaxed)
    _ = thread.join()
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
