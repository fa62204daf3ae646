/// The layout of a trail as its writer chooses it. Readers do not need it.
package struct TrailOptions: Sendable {
  /// The size of a segment's file after which the next sync begins another segment, in bytes.
  package var segmentBytes = 16 << 20
  /// The size of a segment's content, in bytes, before compression, after which the next sync begins another segment.
  package var contentBytes = 32 << 20
  /// The size of a block's content, in bytes, before compression. A larger record has a block of its own.
  package var blockBytes = 64 << 10
  /// Whether blocks of 1 KiB and more are compressed with zstd, if that makes them smaller.
  package var compress = true
  /// The number of bytes by which the file of the live segment is allocated ahead.
  package var allocateBytes = 1 << 20

  package init() {}
}
