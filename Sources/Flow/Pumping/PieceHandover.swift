import Changes
import SystemKit

/// Gathers bytes from the network into pieces. Another thread processes each piece in order, while the calling thread
/// fills the next one. Only one thread may add bytes.
final class PieceHandover {
  /// Bytes that one thread fills and another thread processes, never at the same time.
  private final class Piece: @unchecked Sendable {
    var bytes = ByteWriter(capacity: 128 << 10)
    let work: (UnsafeRawBufferPointer) throws -> Void

    init(_ work: @escaping (UnsafeRawBufferPointer) throws -> Void) { self.work = work }

    func run() throws {
      defer { bytes.removeAll() }
      try work(bytes.bytes)
    }
  }

  private static let pieceBytes = 1 << 20

  private let work: (UnsafeRawBufferPointer) throws -> Void
  private var coming: Piece
  private var spare: Piece?
  private var running: WorkerThread<(any Error)?>?

  /// Creates a buffer that passes its pieces to `work`.
  ///
  /// - Parameter work: Processes one piece at a time, usually on another thread.
  init(_ work: @escaping (UnsafeRawBufferPointer) throws -> Void) {
    self.work = work
    coming = Piece(work)
  }

  /// Adds bytes.
  ///
  /// - Throws: The error that the processing of an earlier piece threw.
  func put(_ bytes: UnsafeRawBufferPointer) throws {
    if coming.bytes.count + bytes.count > Self.pieceBytes { try handOver() }
    coming.bytes.append(bytes)
    if coming.bytes.count >= Self.pieceBytes { try handOver() }
  }

  private func handOver() throws {
    guard coming.bytes.count > 0 else { return }
    try settle()
    let (piece, next) = (coming, spare ?? Piece(work))
    (coming, spare) = (next, piece)
    do {
      running = try WorkerThread {
        do { try piece.run() } catch { return error }
        return nil
      }
    } catch {
      // If no thread can be started, the calling thread works on the piece.
      try piece.run()
    }
  }

  /// Processes the last pieces, after all bytes were added.
  ///
  /// - Throws: The error that the processing of a piece threw.
  func finish() throws {
    try settle()
    if coming.bytes.count > 0 { try coming.run() }
  }

  /// Waits until the other thread has processed the last piece that was passed to it.
  ///
  /// - Throws: The error that the processing of this piece threw.
  func settle() throws {
    guard let thread = running else { return }
    running = nil
    if let error = thread.join() ?? nil { throw error }
  }
}
