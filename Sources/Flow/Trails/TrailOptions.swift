import Changes

/// The sizes and the compression that a writer uses for a trail.
///
///     var options = TrailOptions()
///     options.transactionBytesMax = 1 << 30
package struct TrailOptions: Sendable {
  /// The file size at which a sync begins another segment, in bytes.
  package var segmentBytes = 16 << 20
  /// The uncompressed content at which a sync begins another segment, in bytes.
  package var contentBytes = 32 << 20
  /// The memory for table schemas, in bytes, at which the next transaction begins another segment.
  package var schemaBytes = 64 << 20
  /// The highest memory for the table schemas of one segment, in bytes. A transaction that needs more fails.
  package var schemaBytesMax = TableSchema.memoryMax
  /// The usual size of a block's uncompressed content, in bytes. A larger record has its own block.
  package var blockBytes = 64 << 10
  /// Whether blocks of 1 KiB and more are compressed with zstd.
  package var compress = true
  /// The highest size of one transaction in the segment's file, in bytes; nil: there is no limit. A transaction that
  /// needs more fails.
  package var transactionBytesMax: UInt64?
  /// The disk space to allocate after the end of the last segment, in bytes.
  package var allocateBytes = 1 << 20

  package init() {}
}
