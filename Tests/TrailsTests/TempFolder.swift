import Foundation

/// A folder of its own for one test, removed at the end.
final class TempFolder: Sendable {
  let path: String

  init() throws {
    path = FileManager.default.temporaryDirectory.path + "/cairn-trails-" + UUID().uuidString
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  func callAsFunction(_ name: String) -> String { path + "/" + name }
}

func contents(_ path: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(fileURLWithPath: path))) }

func put(_ bytes: some Sequence<UInt8>, _ path: String) throws {
  try Data(bytes).write(to: URL(fileURLWithPath: path))
}

/// A copy of a folder of plain files, in place of what was there.
func copyFolder(_ from: String, _ to: String) throws {
  try? FileManager.default.removeItem(atPath: to)
  try FileManager.default.copyItem(atPath: from, toPath: to)
}
