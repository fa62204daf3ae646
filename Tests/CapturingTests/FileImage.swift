import Foundation
import Glibc

/// Runs a program to its end, in a process of its own; throws when it fails.
func runTool(_ name: String, _ arguments: [String]) throws {
  let process = Process()
  process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
  process.arguments = [name] + arguments
  try process.run()
  process.waitUntilExit()
  guard process.terminationStatus == 0 else { throw ToolFailed(tool: name, arguments: arguments) }
}

struct ToolFailed: Error {
  let tool: String
  let arguments: [String]
}

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
      // In our own process, closing the copied file would drop SQLite's locks on it.
      try runTool("cp", [path + suffix, saved + suffix])
    }
  }

  /// One that was saved before.
  init(_ path: String, existing saved: String) { (self.path, self.saved) = (path, saved) }

  /// No connection may be open.
  func restore() throws {
    for suffix in ["", "-wal", "-shm", "-journal"] { unlink(path + suffix) }
    for suffix in Self.suffixes where FileManager.default.fileExists(atPath: saved + suffix) {
      try runTool("cp", [saved + suffix, path + suffix])
    }
  }
}
