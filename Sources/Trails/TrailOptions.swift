/// How a writer lays out its trail. Readers need not know.
package struct TrailOptions: Sendable {
  /// Size of a segment's file after which the next sync begins another segment.
  package var segmentBytes = 16 << 20
  /// The same of its content, before compression: who opens a trail reads its segment from the beginning.
  package var contentBytes = 32 << 20
  /// Content of a block, before compression. A larger record has a block of its own.
  package var blockBytes = 64 << 10
  /// Compress with zstd the blocks of 1 KiB and more that become smaller by it.
  package var compress = true
  /// How far the live segment is allocated ahead.
  package var allocateBytes = 1 << 20

  package init() {}
}
