import Changes

/// The sizes and the compression that a writer uses for a trail. Readers do not need them.
package struct TrailOptions: Sendable {
  /// The size of a segment's file, in bytes, at which the segment is finished: the next sync begins another one.
  package var segmentBytes = 16 << 20
  /// The size of a segment's content before compression, in bytes, at which the segment is finished by the next sync.
  package var contentBytes = 32 << 20
  /// The memory for the schemas of a segment, in the bytes of ``TableSchema/memoryBytes``, from which on the next
  /// transaction begins another segment. One transaction can add schemas up to ``TableSchema/memoryMax``.
  package var schemaBytes = 64 << 20
  /// The most memory that the schemas of one segment may take. Tests use less than readers accept.
  package var schemaBytesMax = TableSchema.memoryMax
  /// The usual size of a block's content before compression, in bytes. A larger record has a block of its own.
  package var blockBytes = 64 << 10
  /// Whether blocks of 1 KiB and more are compressed with zstd, if that makes them smaller.
  package var compress = true
  /// The number of bytes of disk space to allocate beyond the end of the last segment.
  package var allocateBytes = 1 << 20

  package init() {}
}
