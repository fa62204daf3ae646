import Changes
import SystemKit

/// A buffer that gathers bytes from the network into larger pieces. Another thread works on one piece while the next
/// one arrives.
///
/// To check and to write a piece takes longer than to receive it. Pieces are worked on one after the other, in order;
/// there are two at most. Belongs to one thread.
final class PieceHandover {
  /// A piece that one thread fills and another one works on, never both at a time.
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
  /// - Parameter work: Called on other threads, never on two at a time, and on none when ``settle()`` has returned.
  init(_ work: @escaping (UnsafeRawBufferPointer) throws -> Void) {
    self.work = work
    coming = Piece(work)
  }

  /// Adds bytes. Throws what the work on an earlier piece threw.
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

  /// Ends the handover when all bytes have arrived: passes on the last piece, and waits for the work.
  func finish() throws {
    try settle()
    if coming.bytes.count > 0 { try coming.run() }
  }

  /// Waits until the work on the last piece has ended, and throws its error.
  func settle() throws {
    guard let thread = running else { return }
    running = nil
    if let error = thread.join() ?? nil { throw error }
  }
}
