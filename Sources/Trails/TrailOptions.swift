/// The layout of a trail, as its writer chooses it. Readers need not know.
package struct TrailOptions: Sendable {
  /// The size of a segment's file after which the next sync begins another segment, in bytes.
  package var segmentBytes = 16 << 20
  /// The same limit for its content, before compression: opening a trail reads a segment from the beginning.
  package var contentBytes = 32 << 20
  /// The content of a block in bytes, before compression. A larger record has a block of its own.
  package var blockBytes = 64 << 10
  /// Whether blocks of 1 KiB and more are compressed with zstd, if that makes them smaller.
  package var compress = true
  /// The number of bytes that the live segment is allocated ahead.
  package var allocateBytes = 1 << 20

  package init() {}
}
