import Foundation
import SystemKit
import Testing

@Suite struct WholeFileTests {
  @Test func `a file is read whole or not at all`() throws {
    let path = NSTemporaryDirectory() + "cairn-whole-\(UUID().uuidString)"
    defer { unlink(path) }
    let text = String(repeating: "line\n", count: 300_000) + "last"
    try text.write(toFile: path, atomically: true, encoding: .utf8)
    #expect(try File.text(path) == text)
    let error = #expect(throws: FileError.self) { try File.text(path, bytesMax: 1 << 20) }
    #expect(error?.code == EFBIG)
  }
}
