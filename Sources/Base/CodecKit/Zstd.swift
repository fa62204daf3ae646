import CZstd

/// zstd compression with reused contexts, for one thread.
///
///     let count = Zstd().compress(bytes, into: buffer)   // nil if the buffer is too small
package final class Zstd {
  private var compressor: OpaquePointer?
  private var decompressor: OpaquePointer?

  package init() {}

  deinit {
    ZSTD_freeCCtx(compressor)
    ZSTD_freeDCtx(decompressor)
  }

  /// Compresses at level 1 into one frame. Returns its length; nil if the frame does not fit into `buffer`.
  package func compress(_ bytes: UnsafeRawBufferPointer, into buffer: UnsafeMutableRawBufferPointer) -> Int? {
    if compressor == nil { compressor = ZSTD_createCCtx() }
    guard let compressor else { return nil }
    let result = ZSTD_compressCCtx(compressor, buffer.baseAddress, buffer.count, bytes.baseAddress, bytes.count, 1)
    return ZSTD_isError(result) == 0 ? result : nil
  }

  /// Decompresses one frame. Returns false if the frame is damaged, or if its content does not fill `buffer` exactly.
  package func decompress(_ frame: UnsafeRawBufferPointer, into buffer: UnsafeMutableRawBufferPointer) -> Bool {
    if decompressor == nil { decompressor = ZSTD_createDCtx() }
    guard let decompressor else { return false }
    let result = ZSTD_decompressDCtx(
      decompressor, buffer.baseAddress, buffer.count, frame.baseAddress, frame.count)
    return ZSTD_isError(result) == 0 && result == buffer.count
  }
}
