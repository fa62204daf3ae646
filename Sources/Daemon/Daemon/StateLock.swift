import Changes
import Glibc
import SystemKit

/// The lock on a state folder, held while this object exists. Only one daemon holds the lock at a time.
package final class StateLock {
  private let file: File

  /// Locks the folder, and creates it if it does not exist.
  ///
  /// - Throws: `state-locked` with the process that holds the lock, `state-unwritable`, `disk-full`.
  package init(_ folder: String, socket: String) throws {
    do {
      try Folder.create(folder)
      file = try File(folder + "/lock", .openOrCreate)
      guard try file.tryLock() else {
        var bytes = [UInt8](repeating: 0, count: 32)
        let count = try bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }
        let process = String(decoding: bytes.prefix(count).prefix { (0x30...0x39).contains($0) }, as: UTF8.self)
        throw CairnError(
          .stateLocked,
          "another cairnd\(process.isEmpty ? "" : ", process \(process),") runs on the state folder \(folder)",
          hint: "stop that daemon first, or set another folder as state in [node]", remedy: .retry)
      }
      try file.truncate(to: 0)
      try Array("\(getpid())\n\(socket)\n".utf8).withUnsafeBytes { try file.write($0, at: 0) }
    } catch let error as FileError {
      throw error.asCairnError(doing: "use the state folder \(folder)")
    }
  }
}
