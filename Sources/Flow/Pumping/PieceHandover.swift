import Changes
import SystemKit

/// A buffer that gathers bytes from the network into larger pieces. Another thread processes one piece while the next
/// one is filled.
///
/// Pieces are processed in order, one at a time; at most two exist. Only one thread may add bytes.
final class PieceHandover {
  /// A piece of the bytes that one thread fills and another thread processes, never both at the same time.
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
  /// - Parameter work: Processes one piece at a time, usually on another thread. The last piece is processed on the
  ///   calling thread; if no thread can be started, all pieces are. It is not called after ``settle()`` until the next
  ///   call of ``put(_:)`` or ``finish()``.
  init(_ work: @escaping (UnsafeRawBufferPointer) throws -> Void) {
    self.work = work
    coming = Piece(work)
  }

  /// Adds bytes. Throws the error of `work` if an earlier piece could not be processed.
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

  /// Waits for the piece that is being processed, then processes the last piece, which may be partly filled, on the
  /// calling thread. Call this after all bytes have been added. Throws the error of `work`.
  func finish() throws {
    try settle()
    if coming.bytes.count > 0 { try coming.run() }
  }

  /// Waits until the piece that was passed on last is processed. Throws the error of `work` if it could not be
  /// processed.
  func settle() throws {
    guard let thread = running else { return }
    running = nil
    if let error = thread.join() ?? nil { throw error }
  }
}
