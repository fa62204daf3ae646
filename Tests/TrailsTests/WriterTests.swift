import Changes
import Foundation
import TestServers
import Testing

@testable import Trails

@Suite struct WriterTests {
  private let temp: TempFolder
  private let folder: String

  init() throws {
    temp = try TempFolder()
    folder = temp("state/till-7.pos")
  }

  @Test func `a second writer is refused until the first one closes`() throws {
    let first = try openWriter(folder)
    fails(.trailBusy) { _ = try openWriter(folder) }
    try first.close()
    let second = try openWriter(folder)
    #expect(second.id == first.id)
  }

  @Test func `a second writer in another process is refused`() async throws {
    let writer = try openWriter(folder)
    await #expect(processExitsWith: .exitCode(75)) { [folder = folder as String] in
      do { _ = try openWriter(folder) } catch let error as CairnError { exit(error.code.exitStatus) }
    }
    try writer.close()
  }

  @Test(arguments: ["removed", "moved", "replaced"])
  func `a trail that is taken away under its writer ends it, and what was written then does not count`(_ how: String)
    throws
  {
    let writer = try openWriter(folder)
    _ = try writer.begin(TransactionHeader(commitTime: 1))
    try writer.commit()
    let end = try writer.sync()
    let reader = try TrailReader.open(folder: folder, at: end)
    if how == "removed" {
      try FileManager.default.removeItem(atPath: folder)
    } else {
      try FileManager.default.moveItem(atPath: folder, toPath: folder + ".away")
    }
    if how == "replaced" { try FileManager.default.copyItem(atPath: folder + ".away", toPath: folder) }
    fails(.trailMissing) { _ = try reader.wait(milliseconds: 0) }
    _ = try writer.begin(TransactionHeader(commitTime: 2))
    try writer.commit()
    fails(.trailMissing) { try writer.sync() }
    #expect(writer.end == end)
    fails(.trailMissing) { try writer.close() }
    if how == "replaced" { #expect(try openWriter(folder).lastHeader?.number == 1) }
  }

  @Test func `an empty trail has no header and ends at its start`() throws {
    let writer = try openWriter(folder)
    #expect(writer.lastHeader == nil && writer.recovery == nil)
    #expect(writer.end == Checkpoint(trail: writer.id, position: .start, chain: .zero))
    #expect(try writer.sync() == writer.end)
    #expect(try readAll(folder).isEmpty)
  }

  @Test func `a commit time that is only the capture's makes nothing after it later`() throws {
    let writer = try openWriter(folder)
    func clock(_ time: Int64, _ clock: UInt64 = 0, isLate: Bool) throws -> UInt64 {
      let header = try writer.begin(TransactionHeader(commitTime: time, clock: clock), isLate: isLate)
      try writer.commit()
      return header.clock
    }
    #expect(try clock(100, isLate: false) == 100)
    #expect(try clock(5000, isLate: true) == 101)
    #expect(try clock(5000, 200, isLate: true) == 200)
    #expect(try clock(300, isLate: false) == 300, "it was committed before the capture wrote what stands before it")
    try writer.close()
  }

  @Test func `numbers have no gaps and the clock rises, also across writers`() throws {
    var last: UInt64 = 0
    var number: UInt64 = 0
    let given: [(time: Int64, clock: UInt64)] = [(100, 0), (100, 0), (50, 0), (-1, 0), (500, 0), (0, 9000), (10, 1)]
    for (index, (time, clock)) in given.enumerated() {
      let writer = try openWriter(folder, .small(segment: index % 2 == 0 ? 1 : 4096))
      #expect((writer.lastHeader?.number ?? 0) == number)
      let header = try writer.begin(
        TransactionHeader(number: 99, commitTime: time, clock: clock, sourcePosition: [UInt8(index)]))
      number += 1
      #expect(header.number == number)
      #expect(header.clock == max(UInt64(max(time, 0)), last + 1, clock))
      last = header.clock
      try writer.commit()
      #expect(writer.lastHeader == header)
      try writer.close()
    }
    let writer = try openWriter(folder)
    #expect(writer.lastHeader?.sourcePosition == [6])
  }

  @Test func `an abandoned transaction leaves nothing, however large it was`() throws {
    let script = Script(try openWriter(folder, .small(block: 100, segment: 1 << 20)))
    for rows in [0, 1, 2, 40] {
      try script.transaction(rows: 2)
      try script.begin()
      for _ in 0..<rows { try script.insert([.integer(1), .null], schema: try script.schema(token: 7 + UInt64(rows))) }
      try script.abandon()
      try script.transaction(rows: 1)
    }
    try script.writer.abandon()
    try script.writer.sync()
    #expect(try readAll(folder) == script.committed)
    try script.begin()
    try script.insert([.integer(1), .null], schema: try script.schema(token: 99))
    try script.writer.close()
    #expect(try readAll(folder) == script.committed)
    #expect(try openWriter(folder).recovery == nil)
  }

  @Test func `a schema is written once in each segment`() throws {
    let script = Script(try openWriter(folder, .small(segment: 1500)))
    for _ in 0..<12 {
      try script.begin()
      for token in [5, 5, 6] as [UInt64] { try script.insert([.null, .null], schema: try script.schema(token: token)) }
      try script.commit()
      try script.writer.sync()
    }
    let segments = try Trail.info(folder: folder).segments
    #expect(segments.count > 2)
    let schemas = try readAll(folder).count { if case .schema = $0 { true } else { false } }
    #expect(schemas == 2 * (segments.count - 1) || schemas == 2 * segments.count)
    try script.writer.close()
    // Another writer does not know the tokens: it gives the schemas new ids.
    let next = Script(try openWriter(folder), committed: script.committed)
    try next.transaction()
    try next.writer.close()
    #expect(try readAll(folder) == next.committed)
  }

  @Test func `sync without anything new does nothing`() throws {
    let script = Script(try openWriter(folder))
    try script.transaction()
    let end = try script.writer.sync()
    let before = try contents("\(folder)/durable")
    #expect(try script.writer.sync() == end)
    #expect(try contents("\(folder)/durable") == before)
  }

  @Test func `calls out of order are bugs and harm nothing`() throws {
    let script = Script(try openWriter(folder))
    let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
    fails(.bug) { try script.writer.commit() }
    fails(.bug) { try script.writer.append(kind: RecordKind.marker, nothing) }
    fails(.bug) { _ = try script.writer.schemaID(items, token: 1) }
    try script.begin()
    fails(.bug) { _ = try script.writer.begin(TransactionHeader(commitTime: 0)) }
    fails(.bug) { try script.writer.sync() }
    for kind in [RecordKind.begin, RecordKind.commit, RecordKind.schema] {
      fails(.bug) { try script.writer.append(kind: kind, nothing) }
    }
    try script.insert([.null, .null], schema: try script.schema())
    try script.commit()
    try script.writer.close()
    fails(.bug) { _ = try script.writer.begin(TransactionHeader(commitTime: 0)) }
    #expect(try readAll(folder) == script.committed)
  }

  @Test func `a folder with another trail is refused`() throws {
    try openWriter(folder).close()
    fails(.stateForeign) {
      _ = try TrailWriter.open(folder: folder, name: TrailName(origin: "till-8", name: "pos"), now: { 0 })
    }
    fails(.usage) { _ = try TrailWriter.open(folder: temp("x"), name: TrailName(origin: "a b", name: ""), now: { 0 }) }
  }

  @Test func `a record of the largest blocks is alone`() throws {
    let script = Script(try openWriter(folder, .small(block: 64)))
    for bytes in [10, 5000, 10, 70_000, 3_000_000, 10] { try script.transaction(rows: 2, bytes: bytes) }
    try script.writer.close()
    #expect(try readAll(folder) == script.committed)
  }

  @Test func `a failed write poisons the writer, and the next one goes on`() throws {
    let script = Script(try openWriter(folder, .small(block: 100)))
    try script.transaction()
    try script.writer.sync()
    let kept = script.committed
    // The segment's folder entry goes, and a folder takes the next segment's name: the rotation fails.
    let large = TrailOptions.small(block: 100, segment: 1)
    try script.writer.close()
    let next = Script(try openWriter(folder, large), committed: kept)
    try FileManager.default.createDirectory(atPath: "\(folder)/00000002.seg", withIntermediateDirectories: true)
    try next.transaction()
    let first = fails(.ioFailed) { try next.writer.sync() }
    let second = fails(.ioFailed) { _ = try next.writer.begin(TransactionHeader(commitTime: 0)) }
    #expect(first?.message == second?.message)
    fails(.ioFailed) { try next.writer.abandon() }
    fails(.ioFailed) { try next.writer.close() }
    try FileManager.default.removeItem(atPath: "\(folder)/00000002.seg")
    let last = Script(try openWriter(folder, large), committed: next.committed)
    #expect(last.writer.lastHeader?.number == 2)
    try last.transaction()
    try last.writer.close()
    #expect(try readAll(folder) == last.committed)
  }
}
