import Changes
import Foundation
import TestServers
import Testing

@testable import Trails

@Suite struct FolderTests {
  private let temp: TempFolder
  private let folder: String

  init() throws {
    temp = try TempFolder()
    folder = temp("state/till-7.pos")
  }

  @Test func `info shows the segments and the end`() throws {
    let script = Script(try openWriter(folder, .small(segment: 1500)))
    for _ in 0..<10 {
      try script.transaction(rows: 8)
      try script.writer.sync()
    }
    let info = try Trail.info(folder: folder)
    #expect(info.name == till && info.id == script.writer.id && info.end == script.writer.end)
    #expect(info.lastTransaction == 10 && info.firstPosition == .start)
    #expect(info.segments.map(\.number) == Array(1...UInt64(info.segments.count)))
    #expect(info.segments.dropLast().allSatisfy { $0.isSealed && $0.bytes >= 1500 })
    #expect(info.segments.last?.isSealed == false)
    #expect(info.segments.map(\.firstTransaction) == info.segments.map(\.firstTransaction).sorted())
    #expect(info.segments.allSatisfy { $0.created == 1_700_000_000_000_000 })
    #expect(info.bytes == info.segments.reduce(0) { $0 + $1.bytes })
  }

  @Test func `list finds the trails and nothing else`() throws {
    #expect(try Trail.list(state: temp("nowhere")).isEmpty)
    for name in ["b.pos", "a.pos"] {
      try TrailWriter.open(folder: temp("state/\(name)"), name: TrailName(name) ?? till, now: { 0 }).close()
    }
    for name in ["c.pos", "plain", "bad.na me"] {
      try FileManager.default.createDirectory(atPath: temp("state/\(name)"), withIntermediateDirectories: true)
    }
    #expect(try Trail.list(state: temp("state")).map(\.name.description) == ["a.pos", "b.pos"])
    fails(.trailMissing) { _ = try Trail.info(folder: temp("state/c.pos")) }
    fails(.trailMissing) { _ = try Trail.verify(folder: temp("state/none.pos")) }
    fails(.trailMissing) { _ = try TrailReader.open(folder: temp("state/none.pos"), at: nil) }
  }

  @Test func `purge deletes sealed segments that lie below and never the last transaction`() throws {
    let options = TrailOptions.small(segment: 1)
    var script = Script(try openWriter(folder, options))
    var ends: [Checkpoint] = []
    for _ in 0..<5 {
      try script.transaction()
      ends.append(try script.writer.sync())
    }
    #expect(ends[1].position == Position(segment: 3, offset: 0))
    #expect(try Trail.purge(folder: folder, below: .start).isEmpty)
    #expect(try Trail.purge(folder: folder, below: Position(segment: 2, offset: .max)) == [1])
    #expect(try Trail.purge(folder: folder, below: ends[1].position) == [2])
    #expect(try TrailReader.open(folder: folder, at: ends[1]).rest() == Array(script.committed.suffix(12)))
    // The live segment, 6, is empty: its writer will look for the last transaction in 5.
    #expect(try Trail.purge(folder: folder, below: Position(segment: .max, offset: .max)) == [3, 4])
    try script.writer.close()
    script = Script(try openWriter(folder, .small()), committed: Array(script.committed.suffix(4)))
    #expect(script.writer.lastHeader?.number == 5)
    #expect(try readAll(folder) == script.committed)
    try script.transaction()
    try script.writer.sync()
    #expect(try Trail.purge(folder: folder, below: script.writer.end.position) == [5])
    #expect(try readAll(folder) == Array(script.committed.suffix(4)))
    #expect(try Trail.verify(folder: folder).transactions == 1)
    #expect(try Trail.info(folder: folder).firstPosition == Position(segment: 6, offset: 0))
  }

  @Test func `a reader goes on while its old segments are purged`() throws {
    let script = Script(try openWriter(folder, .small(segment: 1500)))
    let reader = try TrailReader.open(folder: folder, at: nil)
    var seen: [Seen] = []
    for _ in 0..<30 {
      try script.transaction(rows: 3)
      try script.writer.sync()
      seen += try reader.rest()
      _ = try Trail.purge(folder: folder, below: reader.checkpoint.position)
    }
    #expect(seen == script.committed)
    #expect(try Trail.info(folder: folder).segments.count <= 2)
  }

  @Test func `a reader whose next segment has been purged says so`() throws {
    let script = Script(try openWriter(folder, .small(segment: 1)))
    for _ in 0..<4 {
      try script.transaction()
      try script.writer.sync()
    }
    let reader = try TrailReader.open(folder: folder, at: nil)
    _ = try reader.next()
    _ = try Trail.purge(folder: folder, below: Position(segment: 4, offset: 0))
    #expect(reader.untilError().1?.code == .checkpointForeign)
  }
}
