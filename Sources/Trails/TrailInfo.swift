import Changes

/// What can be told of a trail without reading its records.
package struct TrailInfo: Equatable, Sendable {
  package struct Segment: Equatable, Sendable {
    package var number: UInt64
    /// Of the file; in the live segment up to the durable end.
    package var bytes: UInt64
    package var isSealed: Bool
    package var firstTransaction: UInt64
    /// µs since 1970 UTC.
    package var created: Int64
  }

  package var folder: String
  package var name: TrailName
  package var id: TrailID
  /// In order; the last one is the live segment.
  package var segments: [Segment]
  /// The start of the oldest segment.
  package var firstPosition: Position
  package var end: Checkpoint
  /// 0: none yet.
  package var lastTransaction: UInt64
  package var bytes: UInt64
}

/// What a trail holds, from its oldest segment to its durable end.
package struct TrailSummary: Equatable, Sendable {
  package var transactions: UInt64 = 0
  /// Change and refresh row records.
  package var changes: UInt64 = 0
  /// Of the files.
  package var bytes: UInt64 = 0
  package var segments: UInt64 = 0
}
