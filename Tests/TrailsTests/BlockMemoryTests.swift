import Changes
import CodecKit
import Foundation
import SystemKit
import TestServers
import Testing

@testable import Trails

/// Memory for blocks of unusual size: one budget, and all of it is given back.
@Suite(.serialized) struct BlockMemoryTests {
  @Test func `a claim waits for room, is refused after a while, and a single block always has room`() throws {
    let memory = BlockMemory(patienceMilliseconds: 100)
    memory.limit = 100
    try memory.claim(150)
    #expect(failure { try memory.claim(1) } == .busy)
    memory.free(150)
    try memory.claim(60)
    try memory.claim(40)
    #expect(failure { try memory.claim(1) } == .busy)
    // A reader does not wait.
    memory.take(500)
    #expect(memory.used == 600 && memory.peak == 600)
    memory.free(600)
    let waiter = try WorkerThread<Bool> { (try? memory.claim(100)) != nil }
    #expect(waiter.join() == true)
  }

  /// Other tests of this process may have a large block at the moment.
  private var isGivenBack: Bool {
    for _ in 0..<200 {
      if BlockMemory.shared.used == 0 { return true }
      Clock.sleep(milliseconds: 50)
    }
    return false
  }

  private func failure(_ body: () throws -> Void) -> ErrorCode? {
    do {
      try body()
      return nil
    } catch { return (error as? CairnError)?.code }
  }

  /// Writes a trail with one record of so many bytes, which compress well or not at all, between two small ones.
  private func write(_ folder: String, _ name: TrailName, record bytes: Int, isRandom: Bool) throws {
    let writer = try TrailWriter.open(folder: folder, name: name, now: { 0 })
    for size in [10, bytes, 10] {
      _ = try writer.begin(TransactionHeader(commitTime: 0))
      var payload = ByteWriter(capacity: size)
      payload.append(1)
      payload.appendCounted(try content(size, isRandom: isRandom))
      try writer.append(kind: RecordKind.marker, payload.bytes)
      try writer.commit()
      try writer.sync()
    }
    try writer.close()
  }

  private func content(_ size: Int, isRandom: Bool) throws -> [UInt8] {
    guard isRandom else { return [UInt8](repeating: 0, count: size) }
    let source = try #require(FileHandle(forReadingAtPath: "/dev/urandom"))
    return [UInt8](try #require(try source.read(upToCount: size)))
  }

  @Test(.serialized, arguments: [true, false])
  func `a large record is copied and read, and its memory is given back`(isRandom: Bool) throws {
    let pair = try CopyPair()
    try write(pair.origin, till, record: 2 << 20, isRandom: isRandom)
    let copy = try pair.open()
    try pair.bring(copy)
    #expect(isGivenBack, "the copy is open")
    try copy.close()
    try pair.expectEqual()
    for folder in [pair.origin, pair.copy] {
      let reader = try TrailReader.open(folder: folder, at: nil)
      var records = 0
      while try reader.next() != nil { records += 1 }
      #expect(records == 9)
      #expect(isGivenBack, "the reader is at the end of the trail, and open")
      #expect(try reader.checkpoint == Trail.info(folder: folder).end)
    }
    #expect(BlockMemory.shared.peak >= 2 << 20)
  }

  @Test func `a copy takes room on the disk for what it has, and is deleted as a whole`() throws {
    let temp = try TempFolder()
    let (folder, name) = (temp("till.pos"), TrailName(origin: "till", name: "pos"))
    try write(folder, name, record: 100, isRandom: true)
    let whole = try Data(contentsOf: URL(fileURLWithPath: folder + "/00000001.seg"))
    let source = try SegmentSource.open(folder: folder)
    let start = try #require(try source.start(of: 1))
    let copy = try TrailCopy.open(folder: temp("far.pos"), name: name)
    _ = try whole.prefix(512).withUnsafeBytes { try copy.append($0, at: start, of: source.id) }
    try copy.sync()
    var info = try Trail.info(folder: temp("far.pos"))
    #expect(info.isEmpty && info.onDisk <= 20 << 10)
    let end = try #require(copy.end)
    let count = Int(try source.standing().end.offset)
    _ = try whole[512..<count].withUnsafeBytes { try copy.append($0, at: end, of: source.id) }
    try copy.sync()
    info = try Trail.info(folder: temp("far.pos"))
    #expect(!info.isEmpty && info.onDisk > 20 << 10 && info.onDisk <= 256 << 10)
    try copy.remove()
    #expect(!FileManager.default.fileExists(atPath: temp("far.pos")))
  }
}
