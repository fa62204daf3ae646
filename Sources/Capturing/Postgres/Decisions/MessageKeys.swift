import Changes
import CodecKit
import PostgresKit

/// The keys of the database that this role may read, and the messages that they refuse. Pure.
///
/// Every role may write messages into the log, so a message counts only if it has a code of one of these keys.
struct MessageKeys {
  private static let reportMilliseconds: Int64 = 60_000
  private let hasher: SHA256
  private var own: MessageKey?
  private var triggers: MessageKey?
  /// The next time at which a refused message is reported, in monotonic ms.
  private var reportAt: Int64 = 0

  init() throws { hasher = try SHA256() }

  /// The place in the log before which builds without a key wrote notes; nil without a key.
  var since: LSN? { own?.since }

  mutating func set(_ key: MessageKey?, of place: MessageKey.Place) {
    switch place {
    case .own: own = key
    case .triggers: triggers = key
    }
  }

  /// Returns the content of a message that Cairn wrote in this transaction; nil for any other message.
  func content(
    of message: UnsafeRawBufferPointer, prefix: String, transaction: UInt32, _ place: MessageKey.Place
  ) -> UnsafeRawBufferPointer? {
    (place == .own ? own : triggers)?.content(of: message, prefix: prefix, transaction: transaction, hasher)
  }

  /// Notes a refused message. Returns whether it is to be reported: one per minute is.
  mutating func refuse(now: Int64) -> Bool {
    guard now >= reportAt else { return false }
    reportAt = now + Self.reportMilliseconds
    return true
  }
}
