import Changes
import CodecKit
import PostgresKit

/// The keys that sign logical messages of Cairn. Capture accepts only signed ones, as any role can write into the log.
/// Barriers, and some messages of older builds, need no signature.
struct MessageKeys {
  private static let reportMilliseconds: Int64 = 60_000
  private let hasher: SHA256
  private var own: MessageKey?
  private var triggers: MessageKey?
  private var readAt = LSN(0)
  private var reportAt: Int64 = 0

  init() throws { hasher = try SHA256() }

  /// The LSN before which older builds of Cairn wrote messages without a signature; nil if no key is known.
  var since: LSN? { own?.since }

  /// Returns whether a message of this transaction may be signed with a key that has not been read yet.
  ///
  /// - Parameter commit: The LSN of the transaction's commit.
  func mayBeNew(at commit: LSN) -> Bool { commit > readAt }

  mutating func noteRead(at end: LSN) { readAt = max(readAt, end) }

  mutating func set(_ key: MessageKey?, of place: MessageKey.Place) {
    switch place {
    case .own: own = key
    case .triggers: triggers = key
    }
  }

  /// Returns the content of a signed message; nil if its signature is not valid for this transaction.
  func content(
    of message: UnsafeRawBufferPointer, prefix: String, transaction: UInt32, _ place: MessageKey.Place
  ) -> UnsafeRawBufferPointer? {
    (place == .own ? own : triggers)?.content(of: message, prefix: prefix, transaction: transaction, hasher)
  }

  /// Returns whether to report a refused message; at most one per minute is reported.
  mutating func refuse(now: Int64) -> Bool {
    guard now >= reportAt else { return false }
    reportAt = now + Self.reportMilliseconds
    return true
  }
}
