import Applying
import Changes
import ServiceKit
import Testing

@testable import Daemon

/// Messages and names that a peer or a file can make very long.
@Suite struct CutMessageTests {
  @Test func `a line of the log has a limit of bytes`() {
    let name = String(repeating: "n", count: 1 << 20)
    let entry = LogEntry(.error, name, hint: name, context: ["table": name])
    #expect(entry.line.utf8.count < 10_000)
    #expect(entry.fields.allSatisfy { $0.value.utf8.count < 10_000 })
    #expect("short".cutMessage == "short")
  }

  @Test func `tables with long names are not noted`() throws {
    let note = try LeftOutNote(state: "/nonexistent", apply: "pos").open()
    let name = String(repeating: "n", count: 2000)
    #expect(try !note.add(LeftOutTable(source: name, namespace: "", name: "t")))
  }
}
