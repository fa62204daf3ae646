import Changes
import CodecKit
import PostgresKit

/// The keys by which capture recognizes logical messages that Cairn wrote. A key is missing if capture's role may not
/// read it. This type does no I/O.
///
/// Every role may write messages into the log, so capture accepts a message only if it is signed with one of these
/// keys. There are three exceptions (``IncomingTransaction/key(of:since:)``). A barrier needs no signature, as its text
/// is random. A schema message of an earlier build needs none, as it only makes capture read the catalog. An applied
/// note needs none if it was written before there was a key.
struct MessageKeys {
  private static let reportMilliseconds: Int64 = 60_000
  private let hasher: SHA256
  private var own: MessageKey?
  private var triggers: MessageKey?
  /// The end of the server's log just before the keys were read last.
  private var readAt = LSN(0)
  /// The next time at which a refused message is reported, in monotonic ms.
  private var reportAt: Int64 = 0

  init() throws { hasher = try SHA256() }

  /// The place in the log before which earlier builds of Cairn wrote messages without a signature; nil if no key is
  /// known.
  var since: LSN? { own?.since }

  /// Returns whether a message of this transaction may be signed with a key that is newer than those that were read. If
  /// not, the keys need not be read again, however many forged messages come.
  ///
  /// - Parameter commit: The place of the transaction's commit.
  func mayBeNew(at commit: LSN) -> Bool { commit > readAt }

  /// Remembers that the server's log ended at `end` just before the keys were read.
  mutating func noteRead(at end: LSN) { readAt = max(readAt, end) }

  mutating func set(_ key: MessageKey?, of place: MessageKey.Place) {
    switch place {
    case .own: own = key
    case .triggers: triggers = key
    }
  }

  /// Returns the content of a message that Cairn wrote in this transaction; nil if the message has no valid signature.
  func content(
    of message: UnsafeRawBufferPointer, prefix: String, transaction: UInt32, _ place: MessageKey.Place
  ) -> UnsafeRawBufferPointer? {
    (place == .own ? own : triggers)?.content(of: message, prefix: prefix, transaction: transaction, hasher)
  }

  /// Returns whether to report a message that is refused now: at most one per minute is reported.
  mutating func refuse(now: Int64) -> Bool {
    guard now >= reportAt else { return false }
    reportAt = now + Self.reportMilliseconds
    return true
  }
}
