import Changes

/// The facts about a trail that are known without reading its records.
package struct TrailInfo: Equatable, Sendable {
  package struct Segment: Equatable, Sendable {
    package var number: UInt64
    /// The size of the segment's file in bytes; in the last segment, up to the durable end.
    package var bytes: UInt64
    package var isSealed: Bool
    package var firstTransaction: UInt64
    /// The time at which the segment was created, µs since 1970 UTC. A peer may have written the
    /// header, so the time is not after the last write to the file, nor in the future.
    package var created: Int64
    /// The disk space of the segment's file in bytes, including the space allocated after the durable end.
    package var allocated: UInt64 = 0
    /// The disk space of the segment's index in bytes; 0 if it has none.
    package var indexed: UInt64 = 0
    /// The bytes that count against a limit of disk space: the larger of ``bytes`` and ``allocated``, and the index.
    package var onDisk: UInt64 { max(bytes, allocated) + indexed }

    /// Compares all fields except ``allocated`` and ``indexed``, which file systems compute in different ways.
    package static func == (a: Segment, b: Segment) -> Bool {
      a.number == b.number && a.bytes == b.bytes && a.isSealed == b.isSealed
        && a.firstTransaction == b.firstTransaction && a.created == b.created
    }
  }

  package var folder: String
  package var name: TrailName
  package var id: TrailID
  /// The segments in order; the writer adds to the last one.
  package var segments: [Segment]
  /// The position of the start of the oldest segment.
  package var firstPosition: Position
  package var end: Checkpoint
  /// The number of the last transaction; 0 if there is none yet.
  package var lastTransaction: UInt64
  package var bytes: UInt64
  /// The time of the last write to the file of the last segment, µs since 1970 UTC.
  package var writtenAt: Int64 = 0
  /// The assumed disk space of the files in a trail's folder that are no segments, in bytes.
  package static let besides: UInt64 = 12 << 10
  /// The disk space of the trail in bytes.
  package var onDisk: UInt64 { segments.reduce(Self.besides) { $0 + $1.onDisk } }
  /// Whether the trail has no whole transaction yet.
  package var isEmpty: Bool { lastTransaction < segments.first?.firstTransaction ?? 1 }
}

/// The content of a trail in numbers, from its oldest segment to its durable end.
package struct TrailSummary: Equatable, Sendable {
  package var transactions: UInt64 = 0
  /// The number of records with rows: rows inserted, updated or deleted, and rows of a refresh.
  package var changes: UInt64 = 0
  /// The size of all segment files of the trail together, in bytes.
  package var bytes: UInt64 = 0
  package var segments: UInt64 = 0
}
