import Changes

/// The size of a received transaction up to the end of a block, and its limits.
///
/// A peer can pack gigabytes of content, and millions of records, into some kilobytes. Each record takes time at every
/// reader of the trail, and an apply holds locks at its target meanwhile. So a transaction may have only so much content
/// beyond what its stored bytes explain. The transactions of a block count together.
///
///     try OpenTransactionSize(contentBytes: 9000, storedBytes: 400).check(at: place)
struct OpenTransactionSize {
  /// Any transaction may have so much content, in bytes.
  private static let contentFree: UInt64 = 1 << 30
  /// The content, in bytes, that a transaction may have for each stored byte.
  private static let contentRatio: UInt64 = 1024
  /// Any transaction may have so many records.
  private static let recordsFree: UInt64 = 16 << 20
  /// The number of records that a transaction may have for each stored byte.
  private static let recordsRatio: UInt64 = 16

  let contentBytes: UInt64
  let storedBytes: UInt64

  private var contentMax: UInt64 { Self.contentFree &+ storedBytes &* Self.contentRatio }
  var recordsMax: UInt64 { Self.recordsFree &+ storedBytes &* Self.recordsRatio }

  /// - Throws: `usage` if the transaction has too much content for its stored bytes.
  func check(at place: Position) throws(CairnError) {
    guard contentBytes > contentMax else { return }
    throw Self.error("\(contentBytes) bytes of content in \(storedBytes) stored bytes", at: place, "\(contentMax)")
  }

  static func tooManyRecords(at place: Position, _ most: UInt64) -> CairnError {
    error("more than \(most) records", at: place, "\(most)")
  }

  private static func error(_ size: String, at place: Position, _ most: String) -> CairnError {
    CairnError(
      .usage, "a transaction has \(size) at \(place); the limit for its stored bytes is \(most)",
      hint: "remove the trail at its node, so that it begins again with a copy; write as much in several transactions",
      remedy: .retry,
      context: ["position": place.description])
  }
}
