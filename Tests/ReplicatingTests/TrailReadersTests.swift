@testable import Endpoints
import Changes
import Foundation
import Glibc
import SystemKit
import Testing
@testable import Trails

@Suite struct TrailReadersTests {
  private let folder: String
  private let home: CaptureHome
  private let readers: TrailReaders

  init() throws {
    folder = NSTemporaryDirectory() + "/cairn-readers-" + UUID().uuidString
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    home = CaptureHome(place: folder + "/first", trail: TrailName(origin: "local", name: "shop"))
    readers = TrailReaders(home, source: "/shop.db")
    _ = try StateFolder(home.place, from: "/shop.db", to: "/a.db")
  }

  private func reader(_ name: String, _ tables: [String] = ["*"]) throws -> TrailReaders.Reader {
    let state = "\(folder)/\(name)"
    _ = try StateFolder(state, from: "/shop.db", to: "/\(name).db")
    var reader = TrailReaders.Reader(state: state, target: "/\(name).db")
    reader.tables = TablePatterns(tables)
    return reader
  }

  @Test func `the replication whose folder it is counts, although it never listed itself`() throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let b = try reader("b")
    #expect(try readers.enroll(b))
    #expect(try readers.all().map(\.target).sorted() == ["/a.db", "/b.db"])
    #expect(try readers.needs(besides: b.state) == Position(segment: 0, offset: 0))
    try readers.remove(home.place)
    #expect(try readers.needs(besides: b.state) == nil)
    #expect(try !readers.enroll(b))
    #expect(try readers.all().map(\.target) == ["/b.db"])
  }

  @Test func `the needed place is the least of all, and never goes back`() throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let (b, c) = (try reader("b", ["one", "two"]), try reader("c", ["t*", "!two"]))
    for reader in [b, c] { _ = try readers.enroll(reader) }
    try readers.remove(home.place)
    try readers.note(7, of: b.state)
    #expect(try readers.needs(besides: "/elsewhere") == Position(segment: 0, offset: 0))
    try readers.note(4, of: c.state)
    #expect(try readers.needs(besides: "/elsewhere") == Position(segment: 4, offset: 0))
    try readers.note(3, of: c.state)
    var again = c
    again.segment = 9
    _ = try readers.enroll(again)
    #expect(try readers.needs(besides: b.state) == Position(segment: 4, offset: 0))
    let tables = try readers.tables()
    #expect(["one", "two", "three"].allSatisfy { tables.includes($0) } && !tables.includes("four"))

    // A state folder that is removed, or is another replication's, keeps nothing.
    try FileManager.default.removeItem(atPath: c.state)
    #expect(try readers.needs(besides: "/elsewhere") == Position(segment: 7, offset: 0))
    _ = try StateFolder(c.state, from: "/other.db", to: "/c.db")
    #expect(try readers.all().map(\.target) == ["/b.db"])
    // One that was taken off the list does not come back by what it notes.
    try readers.remove(b.state)
    try readers.note(9, of: b.state)
    #expect(try readers.all().isEmpty)
  }

  @Test func `a request lasts until the capture that took it says so`() throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let b = try reader("b", ["one"])
    _ = try readers.enroll(b)
    try readers.ask(b.tables, for: b.state)
    let first = try readers.requests()
    #expect(first.count == 1 && first[0].tables == TablePatterns(["one"]))
    try readers.ask(TablePatterns(), for: b.state)
    readers.settle(first.map(\.name))
    #expect(try readers.hasRequest(of: b.state))
    readers.settle(try readers.requests().map(\.name))
    #expect(try !readers.hasRequest(of: b.state))
  }

  @Test func `a file that Cairn did not write is an error, and never less to keep`() throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let b = try reader("b")
    _ = try readers.enroll(b)
    try Data().write(to: URL(fileURLWithPath: home.place + "/readers/0123456789abcdef"))
    #expect(throws: CairnError.self) { try readers.needs(besides: b.state) }
  }

  @Test func `a reader that has long been away is reported, one that keeps nothing is not`() throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    var b = try reader("b")
    let segments = (1...3).map {
      TrailInfo.Segment(number: $0, bytes: 5 << 20, isSealed: $0 < 3, firstTransaction: $0, created: 0)
    }
    let id = try #require(TrailID([UInt8](repeating: 1, count: 16)))
    let chain = try #require(ChainHash([UInt8](repeating: 0, count: 32)))
    let info = TrailInfo(
      folder: home.folder, name: home.trail, id: id, segments: segments,
      firstPosition: Position(segment: 1, offset: 0),
      end: Checkpoint(trail: id, position: Position(segment: 3, offset: 9), chain: chain), lastTransaction: 9,
      bytes: 15 << 20)
    b.segment = 2
    let late = TrailReaders.seenMicroseconds + 1
    #expect(readers.notice(of: b, info, now: late)?.contains("keeps 5 MiB for /b.db") == true)
    #expect(readers.notice(of: b, info, now: late - 2) == nil)
    b.segment = 3
    #expect(readers.notice(of: b, info, now: late) == nil)
  }
}
