import Changes
import Foundation
import TestServers
import Testing

@testable import Trails

@Suite struct RecoveryTests {
  private let temp: TempFolder
  private let folder: String
  private let options = TrailOptions.small(block: 200, segment: 1 << 20)

  init() throws {
    temp = try TempFolder()
    folder = temp("till-7.pos")
  }

  private var segment: String { "\(folder)/00000001.seg" }

  /// A trail with 3 synced transactions and 6 written ones after the mark, as a killed process leaves it.
  private func torn() throws -> (all: [Seen], synced: Int, mark: Int, good: [UInt8], commits: [UInt64: Int]) {
    let script = Script(try openWriter(folder, options))
    var commits: [UInt64: Int] = [:]
    for _ in 0..<3 {
      try script.transaction(rows: 2)
      try script.writer.sync()
    }
    let synced = script.committed.count
    let mark = Int(try Trail.info(folder: folder).bytes)
    for rows in [1, 3, 9, 2, 1, 2] { try script.transaction(rows: rows) }
    // Pending records reach the file only when they no longer fit into a block.
    try script.begin()
    for _ in 0..<40 { try script.insert([.integer(1), .null], schema: try script.schema()) }
    let good = try contents(segment)
    let all = script.committed
    // The same content, read to the end, gives the place of each commit.
    try copyFolder(folder, temp("copy"))
    try openWriter(temp("copy"), options).close()
    let reader = try TrailReader.open(folder: temp("copy"), at: nil)
    var count = 0
    while let record = try reader.next() {
      count += 1
      if case .commit = record { commits[reader.commitPosition.offset] = count }
    }
    commits[0] = 0
    return (all, synced, mark, good, commits)
  }

  @Test(arguments: ["cut", "flip", "garble", "zeros"])
  func `a torn tail is cut off after the last whole block`(kind: String) throws {
    let (all, synced, mark, good, commits) = try torn()
    let places = blocks(good)
    #expect(places.count > 8)
    let end = try #require(places.last).file.upperBound
    let copy = temp("work")
    var random = Seeded(11)
    try copyFolder(folder, copy)
    let durable = try contents("\(folder)/durable")
    for offset in mark..<end {
      var bad = good
      switch kind {
      case "cut": bad.removeSubrange(offset...)
      case "flip": bad[offset] ^= 0x20
      case "zeros": for at in offset..<bad.count { bad[at] = 0 }
      default: for at in offset..<bad.count { bad[at] = UInt8.random(in: 1...255, using: &random) }
      }
      try put(bad, "\(copy)/00000001.seg")
      try put(durable, "\(copy)/durable")

      let border = places.last { $0.file.upperBound <= offset && $0.header.flags.contains(.border) }
      let content = try #require(border.map { $0.content + UInt64($0.header.contentLength) })
      let kept = Array(all.prefix(try #require(commits[content])))
      #expect(kept.count >= synced)
      let script = Script(try openWriter(copy, options), committed: kept)
      #expect(script.writer.end.position.offset == content, "\(kind) at \(offset)")
      #expect((script.writer.recovery != nil) == bad[(border?.file.upperBound ?? 0)...].contains { $0 != 0 })
      #expect(try readAll(copy) == kept, "\(kind) at \(offset)")
      if offset % 7 == 0 {
        try script.transaction(rows: 30)
        try script.writer.close()
        #expect(try readAll(copy) == script.committed, "\(kind) at \(offset)")
      }
    }
  }

  @Test func `whole transactions after the mark are kept and the open one is not`() throws {
    let (all, _, _, _, _) = try torn()
    try copyFolder(folder, temp("copy"))
    let writer = try openWriter(temp("copy"), options)
    #expect(try readAll(temp("copy")) == all)
    #expect(try #require(writer.recovery).position == writer.end.position)
    #expect(try #require(writer.recovery).bytes > 100)
    guard case .commit(let number, _) = all.last else { return }
    #expect(writer.lastHeader?.number == number)
    #expect(try writer.begin(TransactionHeader(commitTime: 0)).number == number + 1)
  }

  @Test func `an older mark is recovered forward`() throws {
    let script = Script(try openWriter(folder, options))
    try script.transaction()
    try script.writer.sync()
    let older = try contents("\(folder)/durable")
    for _ in 0..<5 {
      try script.transaction(rows: 2)
      try script.writer.sync()
    }
    try script.writer.close()
    try put(older, "\(folder)/durable")
    #expect(try readAll(folder).count < script.committed.count)
    let writer = try openWriter(folder, options)
    #expect(writer.recovery == nil)
    #expect(try readAll(folder) == script.committed)
  }

  @Test func `a break before a block that was written after a sync is damage`() throws {
    let script = Script(try openWriter(folder, options))
    try script.transaction()
    try script.writer.sync()
    let older = try contents("\(folder)/durable")
    for _ in 0..<5 {
      try script.transaction(rows: 2)
      try script.writer.sync()
    }
    try script.writer.close()
    let good = try contents(segment)
    let places = blocks(good)
    #expect(places.count == 6)
    for place in places[1..<5] {
      for offset in [place.file.lowerBound, place.file.lowerBound + 30, place.file.upperBound - 1] {
        for zeros in [false, true] {
          var bad = good
          if zeros { for at in place.file { bad[at] = 0 } } else { bad[offset] ^= 1 }
          try put(older, "\(folder)/durable")
          try put(bad, segment)
          let error = fails(.trailDamaged) { _ = try openWriter(folder, options) }
          #expect(error?.context["position"] == "\(Position(segment: 1, offset: place.content))")
        }
      }
    }
    // Nothing proves that the last block was synced.
    var bad = good
    bad[places[5].file.upperBound - 1] ^= 1
    try put(older, "\(folder)/durable")
    try put(bad, segment)
    #expect(try openWriter(folder, options).recovery != nil)
  }

  /// The next segment, cut at every length before the mark has reached it.
  @Test func `a rotation that was cut short is finished`() throws {
    let small = TrailOptions.small(block: 200, segment: 1000)
    let script = Script(try openWriter(folder, small))
    try script.transaction(rows: 3)
    try script.writer.sync()
    try script.transaction(rows: 3)
    let before = try contents("\(folder)/durable")
    try script.writer.sync()
    #expect(script.writer.end.position == Position(segment: 2, offset: 0))
    let after = try contents("\(folder)/durable")
    let header = Array(try contents("\(folder)/00000002.seg").prefix(512))
    // The slot that was written last is in segment 2.
    var older = after
    let slot = DurableMark(after[0..<128])?.segment == 2 ? 0 : 512
    older.replaceSubrange(slot..<slot + 128, with: [UInt8](repeating: 0, count: 128))
    let copy = temp("work")
    for mark in [older, before] {
      for length in -1...512 {
        try copyFolder(folder, copy)
        try put(mark, "\(copy)/durable")
        if length < 0 {
          try FileManager.default.removeItem(atPath: "\(copy)/00000002.seg")
        } else {
          try put(header.prefix(length), "\(copy)/00000002.seg")
        }
        let resumed = Script(try openWriter(copy, small), committed: script.committed)
        #expect(resumed.writer.end.position == Position(segment: 2, offset: 0))
        #expect(resumed.writer.lastHeader?.number == 2)
        if length % 32 == 0 {
          try resumed.transaction()
          try resumed.writer.close()
          #expect(try readAll(copy) == resumed.committed)
        }
      }
    }
  }

  @Test func `a creation that was cut short is begun again`() throws {
    let writer = try openWriter(folder)
    let first = writer.id
    try writer.close()
    let header = Array(try contents(segment).prefix(512))
    for length in [-1, 0, 1, 100, 511, 512] {
      let copy = temp("work\(length)")
      try FileManager.default.createDirectory(atPath: copy, withIntermediateDirectories: true)
      if length >= 0 { try put(header.prefix(length), "\(copy)/00000001.seg") }
      try put([1, 2, 3], "\(copy)/durable.new")
      fails(.trailMissing) { _ = try readAll(copy) }
      let script = Script(try openWriter(copy))
      #expect(script.writer.id != first)
      try script.transaction()
      try script.writer.close()
      #expect(try readAll(copy) == script.committed)
    }
  }

  /// After every call the folder is as a killed process would leave it.
  @Test(arguments: 0..<6)
  func `a process killed at any call loses nothing that was synced and no transaction in part`(run: Int) throws {
    let seed = UInt64.random(in: 0 ... .max)
    print("killed at any call: seed \(seed)")
    var random = Seeded(seed)
    let small = TrailOptions.small(block: 150, segment: 2000, compress: run % 2 == 0)
    let script = Script(try openWriter(folder, small))
    var synced = 0
    func check() throws {
      try copyFolder(folder, temp("copy"))
      let writer = try openWriter(temp("copy"), small)
      let seen = try readAll(temp("copy"))
      #expect(seen.count >= synced && Array(script.committed.prefix(seen.count)) == seen, "seed \(seed)")
      if seen.isEmpty {
        #expect(writer.lastHeader == nil)
      } else {
        guard case .commit(writer.lastHeader?.number ?? 0, _) = seen.last else {
          Issue.record("seed \(seed): the trail does not end with its last commit")
          return
        }
      }
    }
    for _ in 0..<40 {
      try script.begin()
      for _ in 0..<Int.random(in: 0...6, using: &random) {
        try script.insert([.integer(1), .blob(random.bytes(30))], schema: try script.schema())
        try check()
      }
      if Int.random(in: 0...4, using: &random) == 0 { try script.abandon() } else { try script.commit() }
      try check()
      if Int.random(in: 0...2, using: &random) == 0 {
        try script.writer.sync()
        synced = script.committed.count
        try check()
      }
    }
  }
}
