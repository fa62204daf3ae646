import Foundation
import Glibc

/// A folder of its own for one test, removed at the end.
final class TempFolder: Sendable {
  let path: String

  init() throws {
    path = FileManager.default.temporaryDirectory.path + "/cairn-capturing-" + UUID().uuidString
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  func callAsFunction(_ name: String) -> String { path + "/" + name }
}

/// Copies files in a process of its own: in ours, closing the copied database would drop SQLite's locks on it.
func copyFiles(_ pairs: [(from: String, to: String)]) throws {
  for pair in pairs {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/bin/cp")
    process.arguments = ["--", pair.from, pair.to]
    try process.run()
    process.waitUntilExit()
    guard process.terminationStatus == 0 else { throw CopyFailed(path: pair.from) }
  }
}

struct CopyFailed: Error { let path: String }

/// A database as it lies on the disk, with its log, so that it can be put back later.
struct FileImage {
  private static let suffixes = ["", "-wal"]
  let path: String
  let saved: String

  /// No program may be writing meanwhile.
  init(_ path: String, as saved: String) throws {
    (self.path, self.saved) = (path, saved)
    for suffix in Self.suffixes { unlink(saved + suffix) }
    for suffix in Self.suffixes where FileManager.default.fileExists(atPath: path + suffix) {
      try copyFiles([(path + suffix, saved + suffix)])
    }
  }

  /// One that was saved before.
  init(_ path: String, existing saved: String) { (self.path, self.saved) = (path, saved) }

  /// No connection may be open.
  func restore() throws {
    for suffix in ["", "-wal", "-shm", "-journal"] { unlink(path + suffix) }
    for suffix in Self.suffixes where FileManager.default.fileExists(atPath: saved + suffix) {
      try copyFiles([(saved + suffix, path + suffix)])
    }
  }
}
