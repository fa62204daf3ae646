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
    /// The bytes that the file takes on the disk, with those allocated ahead and those after the durable end.
    package var allocated: UInt64 = 0
    /// The bytes that count for limits: a compressing file system may take less than the file has.
    package var onDisk: UInt64 { max(bytes, allocated) }

    /// The same segment of two copies may take different room on two disks.
    package static func == (a: Segment, b: Segment) -> Bool {
      a.number == b.number && a.bytes == b.bytes && a.isSealed == b.isSealed
        && a.firstTransaction == b.firstTransaction && a.created == b.created
    }
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
  /// When the live segment was written last, µs since 1970 UTC.
  package var writtenAt: Int64 = 0
  /// The bytes of the folder besides its segments: the folder, the durable mark and the lock.
  package static let besides: UInt64 = 12 << 10
  /// The bytes that the trail takes on the disk.
  package var onDisk: UInt64 { segments.reduce(Self.besides) { $0 + $1.onDisk } }
  /// Whether no transaction of it is whole.
  package var isEmpty: Bool { lastTransaction < segments.first?.firstTransaction ?? 1 }
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
