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

  @Test func `a pipe and a device are refused at once, in each mode`() throws {
    let path = NSTemporaryDirectory() + "cairn-pipe-\(UUID().uuidString)"
    #expect(mkfifo(path, 0o600) == 0)
    defer { unlink(path) }
    for mode in [File.Mode.read, .readWrite, .openOrCreate] {
      for place in [path, "/dev/null"] {
        let error = #expect(throws: FileError.self, "\(place)") { _ = try File(place, mode) }
        #expect(error?.code == ENOTSUP && error?.operation == "open", "\(place), \(mode)")
      }
    }
    let error = #expect(throws: FileError.self) { try File.text(path) }
    #expect(error?.asCairnError(doing: "read it").hint.contains("is no regular file") == true)
  }
}
