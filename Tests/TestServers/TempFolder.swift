import Foundation

/// A folder of its own for one test, removed at the end.
package final class TempFolder: Sendable {
  package let path: String

  package init() throws {
    path = FileManager.default.temporaryDirectory.path + "/cairn-test-" + UUID().uuidString
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  package func callAsFunction(_ name: String) -> String { path + "/" + name }
}

package func contents(_ path: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(fileURLWithPath: path))) }

package func put(_ bytes: some Sequence<UInt8>, _ path: String) throws {
  try Data(bytes).write(to: URL(fileURLWithPath: path))
}
