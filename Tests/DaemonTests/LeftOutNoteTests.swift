import Applying
import Changes
import Foundation
import SystemKit
import Testing
import Transforming

@testable import Daemon

/// Files of an apply whose content a peer chooses: the tables that it leaves out, and tables with changed rules.
@Suite struct LeftOutNoteTests {
  private final class State {
    let path = FileManager.default.temporaryDirectory.path + "/cairn-left-out-\(UUID().uuidString)"
    var file: String { path + "/applies/pos.left-out" }
    var note: LeftOutNote { LeftOutNote(state: path, apply: "pos") }
    init() throws {
      try FileManager.default.createDirectory(atPath: path + "/applies", withIntermediateDirectories: true)
    }
    deinit { try? FileManager.default.removeItem(atPath: path) }
    func write(_ text: String) throws { try File.replace(file, text: text, permissions: 0o640) }
  }

  private func table(_ name: String) -> LeftOutTable { LeftOutTable(source: name, namespace: "hr", name: name) }

  @Test func `the file is not written as a whole for each table`() throws {
    let state = try State()
    let note = try state.note.open()
    var inodes: Set<FileIdentity?> = []
    for number in 0..<100 {
      #expect(try note.add(table("t\(number)")))
      inodes.insert(FileIdentity(path: state.file))
    }
    #expect(inodes.count == 1)
    #expect(try !note.add(table("t7")))
    #expect(try state.note.read().map(\.name) == (0..<100).map { "t\($0)" })
    try state.note.remove(["t0", "t2"])
    #expect(try state.note.read().count == 98)
  }

  @Test func `a file that others changed is written as a whole`() throws {
    let state = try State()
    let note = try state.note.open()
    #expect(try note.add(table("a")) && note.add(table("b")))
    try FileManager.default.removeItem(atPath: state.file)
    #expect(try note.add(table("c")))
    #expect(try Set(state.note.read().map(\.name)) == ["a", "b", "c"])
  }

  @Test func `the file of an earlier version and a line that a crash has cut are read`() throws {
    let state = try State()
    let former = #"{"tables":[{"source":"a","schema":"hr","name":"a"},{"source":"b","schema":"","name":"b"}]}"# + "\n"
    try state.write(former)
    #expect(try state.note.read().map(\.name) == ["a", "b"])
    #expect(try state.note.open().add(table("c")))
    #expect(try Set(state.note.read().map(\.name)) == ["a", "b", "c"])
    try state.write(former + #"{"source":"d","sche"#)
    #expect(try state.note.read().map(\.name) == ["a", "b"])
    try state.write(former + "nonsense\n")
    #expect(throws: CairnError.self) { try state.note.read() }
  }

  @Test func `names that JSON makes longer leave the file readable`() throws {
    let state = try State()
    let note = try state.note.open()
    var added = 0
    for number in 0..<2000 {
      let name = "\(number)" + String(repeating: "\u{1}", count: 1000)
      added += try note.add(table(name)) ? 1 : 0
    }
    #expect(added > 100 && added < 2000)
    #expect(try File(state.file, .read).size <= UInt64(LeftOutNote.bytesMax))
    #expect(try state.note.read().count == added)
    // An earlier version limited the names, not the file.
    let name = String(repeating: #"\u0001"#, count: 1000)
    let item = #"{"source":"\#(name)","schema":"","name":"t"}"#
    try state.write(#"{"tables":["# + Array(repeating: item, count: 3000).joined(separator: ",") + "]}\n")
    #expect(try File(state.file, .read).size > 16 << 20)
    #expect(try state.note.read().count == 3000)
  }

  @Test func `a file that is too large is an error with the next step`() throws {
    let state = try State()
    try state.write("{}\n")
    try File(state.file, .readWrite).truncate(to: 65 << 20)
    let error = #expect(throws: CairnError.self) { try state.note.read() }
    #expect(error?.code == .stateForeign && error?.hint.contains("cairn copy") == true)
    let rules = RuleNote(state: state.path, apply: "pos")
    try FileManager.default.moveItem(atPath: state.file, toPath: state.path + "/applies/pos.rules")
    let other = #expect(throws: CairnError.self) { try rules.read() }
    #expect(other?.code == .stateForeign && other?.hint.contains("cairn copy") == true)
  }

  @Test func `rules of many tables with long names are read again, and too many are refused`() throws {
    let state = try State()
    let rules = RuleNote(state: state.path, apply: "pos")
    func content(_ count: Int) -> RuleNote.Content {
      let name = String(repeating: "n", count: 1 << 20)
      return .init(rules: [], changed: (0..<count).map { ChangedRule("\($0)\(name)", before: [nil], isCopied: false) })
    }
    try rules.note(content(20))
    #expect(try rules.read() == content(20))
    let error = #expect(throws: CairnError.self) { try rules.note(content(65)) }
    #expect(error?.code == .ruleRefused)
    #expect(try rules.read() == content(20))
  }
}
