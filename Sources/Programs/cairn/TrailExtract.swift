import Changes
import Trails

/// The whole transactions of a trail between two positions. Transactions that become durable during the reading are
/// left out.
struct TrailExtract {
  let folder: String
  /// The first included transaction begins at or after this position; nil for the start of the trail.
  let from: Position?
  /// The last included transaction ends at or before this position; nil for the end of the trail.
  let to: Position?

  /// Calls `body` with each record, and with the reader that has just read the record.
  func read(_ body: (Record, TrailReader) throws -> Void) throws {
    let end = try end()
    let reader = try TrailReader.open(folder: folder, at: nil)
    let stop = end ?? reader.durableEnd.position
    var isWanted = false
    while let record = try reader.next() {
      if case .begin = record {
        if reader.position >= stop { return }
        isWanted = from.map { reader.position >= $0 } ?? true
      }
      if isWanted { try reader.decoding { try body(record, reader) } }
    }
  }

  /// Returns the position at which the first transaction after the extract begins; nil if the extract has no end.
  private func end() throws -> Position? {
    guard let to else { return nil }
    let reader = try TrailReader.open(folder: folder, at: nil)
    var begin = reader.position
    while let record = try reader.next() {
      switch record {
      case .begin:
        begin = reader.position
        if begin >= to { return begin }
      case .commit:
        if reader.position >= to { return begin }
        if reader.position.segment == to.segment, reader.checkpoint.position > to { return begin }
      default: break
      }
    }
    return reader.checkpoint.position
  }
}

/// A buffer of 64 KiB for standard output.
final class TrailOutput {
  private static let pieceBytes = 64 << 10
  private var text = ""

  func line(_ line: String) {
    text += line
    text += "\n"
    if text.utf8.count >= Self.pieceBytes { flush() }
  }

  func flush() {
    Terminal.write(Terminal.isOutputShown ? text.severalLines : text, to: 1)
    text.removeAll(keepingCapacity: true)
  }

  /// Runs `body` with a buffer for standard output. The buffer is written even if `body` throws.
  static func printing(_ body: (TrailOutput) throws -> Void) throws {
    let output = TrailOutput()
    defer { output.flush() }
    try body(output)
  }
}
