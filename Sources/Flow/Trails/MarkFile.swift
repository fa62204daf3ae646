import Changes
import Glibc
import SystemKit

/// The file `durable` of a trail, with two places for a durable mark. The valid durable mark with the higher generation
/// counts.
final class MarkFile {
  private static let slotOffsets: [UInt64] = [0, 512]
  private static let readLength = 640

  let file: File

  init(_ path: String, _ mode: File.Mode) throws(FileError) { file = try File(path, mode) }

  /// Returns the valid durable mark with the higher generation; nil if 20 attempts, 1 ms apart, find none.
  func newest() throws -> DurableMark? {
    for attempt in 0..<20 {
      if attempt > 0 { usleep(1000) }
      if let mark = try slots().compactMap({ $0 }).max(by: { $0.generation < $1.generation }) { return mark }
    }
    return nil
  }

  /// Writes a durable mark to one of the two places of the file, without a sync. The generation of the durable mark
  /// selects the place.
  func write(_ mark: DurableMark) throws {
    let bytes = mark.encoded()
    let offset = Self.slotOffsets[Int(mark.generation % 2)]
    try bytes.withUnsafeBytes { buffer throws in try file.write(buffer, at: offset) }
  }

  private func slots() throws -> [DurableMark?] {
    var bytes = [UInt8](repeating: 0, count: Self.readLength)
    _ = try bytes.withUnsafeMutableBytes { buffer throws in try file.read(into: buffer, at: 0) }
    return Self.slotOffsets.map { DurableMark(bytes[Int($0)..<Int($0) + DurableMark.size]) }
  }
}
