import Changes
import Synchronization

/// What a capture tells people while it runs; read from another thread.
package final class CaptureProgress: Sendable {
  package struct Snapshot: Sendable {
    package var tablesToCopy = 0
    /// The table that is being copied, its rows so far, and how many there were when it began.
    package var copying: (table: String, rows: UInt64, estimated: UInt64)?
    package var rowsCopied: UInt64 = 0
    package var changes: UInt64 = 0
    package var transactions: UInt64 = 0
    /// Journal rows read, in the trail and synced.
    package var taken: Int64 = 0
    package var isCaughtUp = false
  }
  private let state = Mutex(Snapshot())
  private let sink: @Sendable (Notice) -> Void

  /// Something that a person should read: once, not an error.
  package struct Notice: Sendable {
    package let text: String
    package init(_ text: String) { self.text = text }
  }

  package init(notice: @escaping @Sendable (Notice) -> Void = { _ in }) { sink = notice }
  package var snapshot: Snapshot { state.withLock { $0 } }
  func update(_ body: (inout Snapshot) -> Void) { state.withLock { body(&$0) } }
  package func tell(_ text: String) { sink(Notice(text)) }
}
