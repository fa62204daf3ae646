import Changes
import CodecKit
import Foundation
import Synchronization
import SystemKit
import TestServers
import Testing

@testable import Trails

/// Memory for blocks of unusual size: one budget, and all of it is given back.
@Suite(.serialized) struct BlockMemoryTests {
  @Test func `a claim waits for room, is refused after a while, and a single block always has room`() throws {
    let memory = BlockMemory(patienceMilliseconds: 100)
    memory.limit = 100
    let large = try memory.claim(150, of: "a", for: .arrival)
    #expect(failure { _ = try memory.claim(1, of: "a", for: .arrival) } == .busy)
    memory.free(large)
    let few = try [("a", 25), ("b", 25), ("c", 50)].map { try memory.claim($1, of: $0, for: .arrival) }
    #expect(failure { _ = try memory.claim(1, of: "d", for: .arrival) } == .busy)
    #expect(memory.used == 100 && memory.peak == 150)
    let waiter = try WorkerThread<Bool> { (try? memory.claim(100, of: "d", for: .arrival)) != nil }
    few.forEach(memory.free)
    #expect(waiter.join() == true)
  }

  @Test func `blocks of one node that never end leave room for the blocks of others`() throws {
    let memory = BlockMemory(patienceMilliseconds: 50)
    (memory.limit, memory.shares) = (256, 9)
    // A quarter for the blocks that arrive, and as much to unpack them.
    _ = try memory.claim(64, of: "evil", for: .arrival)
    for bytes in [64, 1] { #expect(failure { _ = try memory.claim(bytes, of: "evil", for: .arrival) } == .busy) }
    let error = #expect(throws: CairnError.self) { _ = try memory.claim(1, of: "evil", for: .arrival) }
    #expect(error?.message.contains("'evil' use 64 bytes, and its share is 64") == true)
    _ = try memory.claim(64, of: "evil", for: .unpacking)
    #expect(failure { _ = try memory.claim(1, of: "evil", for: .unpacking) } == .busy)
    for _ in 0..<3 {
      let own = try [BlockMemory.Stage.arrival, .unpacking].map { try memory.claim(64, of: "store", for: $0) }
      own.forEach(memory.free)
    }
    #expect(memory.used == 128)
  }

  @Test func `with a limit of one block, two nodes have room, and a third waits`() throws {
    let memory = BlockMemory(patienceMilliseconds: 50)
    memory.limit = 64
    let held = try memory.claim(64, of: "evil", for: .arrival)
    let own = try [BlockMemory.Stage.arrival, .unpacking].map { try memory.claim(64, of: "store", for: $0) }
    #expect(failure { _ = try memory.claim(64, of: "third", for: .arrival) } == .busy)
    own.forEach(memory.free)
    memory.free(try memory.claim(64, of: "third", for: .arrival))
    // A reader counts as more than one node.
    let turn = try memory.begin(10)
    #expect(failure { _ = try memory.claim(64, of: "third", for: .arrival) } == .busy)
    memory.end(turn)
    memory.free(held)
    #expect(memory.used == 0)
  }

  @Test func `the only node that sends has the whole limit, and each of two has half`() throws {
    let memory = BlockMemory(patienceMilliseconds: 50)
    (memory.limit, memory.shares) = (100, 1)
    let all = try (0..<4).map { _ in try memory.claim(25, of: "store", for: .arrival) }
    // Its blocks that arrive leave no room to unpack one, which it needs to end.
    memory.free(try memory.claim(30, of: "store", for: .unpacking))
    all.forEach(memory.free)
    memory.shares = 2
    _ = try (0..<2).map { _ in try memory.claim(25, of: "store", for: .arrival) }
    #expect(failure { _ = try memory.claim(25, of: "store", for: .arrival) } == .busy)
    // No node at all may send; the conf may change meanwhile.
    memory.shares = 0
    #expect(memory.shares == 1)
  }

  @Test func `four bodies of one node that declare 64 MiB and stop leave room for a row of 2 MiB`() throws {
    let (evil, store) = (try CopyPair(), try CopyPair())
    let memory = BlockMemory(patienceMilliseconds: 50)
    try write(evil.origin, till, record: 2 << 20, isRandom: true)
    try write(store.origin, till, record: 2 << 20, isRandom: true)
    let (source, copy) = (try SegmentSource.open(folder: evil.origin), try evil.open())
    let start = try #require(try source.start(of: 1))
    var header = BlockHeader(
      storedLength: 64 << 20, contentLength: 64 << 20, codec: 0, flags: [], contentOffset: 0, durable: 0, chain: .zero)
    header.chain = start.chain
    var block = [UInt8](repeating: 7, count: BlockHeader.size + 1_100_000)
    block.withUnsafeMutableBytes { header.encode(before: $0) }
    let file = try Data(contentsOf: URL(fileURLWithPath: evil.origin + "/00000001.seg"))
    let length = try file.withUnsafeBytes { try SegmentHeader.length(of: $0, number: 1) }
    _ = try file[..<length].withUnsafeBytes { try copy.append($0, at: start, of: source.id, from: "evil") }
    let place = try #require(copy.end)
    var feeds: [CopyFeed] = []
    for number in 0..<4 {
      let feed = CopyFeed(trail: source.id, at: place, from: "evil", memory: memory)
      let code = failure { try block.withUnsafeBytes { try feed.take($0, for: copy) } }
      #expect(code == (number == 0 ? nil : .busy))
      feeds.append(feed)
    }
    let honest = try store.open()
    try store.bring(honest, memory: memory)
    try honest.close()
    try store.expectEqual()
    #expect(memory.peak > 66 << 20)
    feeds = []
    #expect(memory.used == 0)
    try copy.close()
  }

  @Test func `readers take turns, and one of each depth always has room`() throws {
    let memory = BlockMemory(readerPatienceMilliseconds: 200)
    memory.limit = 100
    func elsewhere<T: Sendable>(_ body: @escaping @Sendable () -> T) throws -> T? {
      try WorkerThread<T> { body() }.join()
    }
    let first = try memory.begin(150)
    #expect(try elsewhere { (try? memory.begin(1)) == nil } == true)
    // A thread that has a block reads a second one meanwhile.
    let inner = try memory.begin(80)
    #expect(memory.used == 230)
    memory.end(inner)
    // Readers come in the order in which they asked.
    let large = try WorkerThread<Bool> {
      guard let turn = try? memory.begin(90) else { return false }
      Clock.sleep(milliseconds: 100)
      memory.end(turn)
      return true
    }
    Clock.sleep(milliseconds: 50)
    let small = try WorkerThread<Int> {
      guard let turn = try? memory.begin(20) else { return -1 }
      defer { memory.end(turn) }
      return memory.used
    }
    Clock.sleep(milliseconds: 50)
    memory.end(first)
    #expect(large.join() == true && small.join() == 20 && memory.used == 0)
    // A block from a peer gets no room of readers, and a reader gets some in any case.
    let claim = try memory.claim(100, of: "a", for: .arrival)
    let turn = try memory.begin(40)
    #expect(memory.used == 140)
    memory.end(turn)
    memory.free(claim)
  }

  @Test func `a worker that is to end waits for no turn`() throws {
    let memory = BlockMemory()
    memory.limit = 100
    let turn = try memory.begin(100)
    let stop = StopSignal()
    let waiter = try WorkerThread<Int64> {
      let begun = Clock.monotonicMilliseconds
      Pulse(stop: stop).attached { if let turn = try? memory.begin(100) { memory.end(turn) } }
      return Clock.monotonicMilliseconds - begun
    }
    Clock.sleep(milliseconds: 300)
    stop.set()
    let waited = waiter.join()
    #expect((250..<20_000).contains(waited ?? 0))
    memory.end(turn)
    #expect(memory.used == 0)
  }

  /// The blocks that are held at the same time by the readers of a test.
  private final class Held: Sendable {
    private let counts = Mutex((now: 0, most: 0))
    func enter() {
      counts.withLock {
        $0.now += 1
        $0.most = max($0.most, $0.now)
      }
    }
    func leave() { counts.withLock { $0.now -= 1 } }
    var most: Int { counts.withLock { $0.most } }
  }

  @Test func `sixteen readers of blocks of 64 MiB stay within the budget, and all come to the end`() throws {
    let temp = try TempFolder()
    try write(temp("till.pos"), till, record: 64 << 20, isRandom: false)
    let held = Held()
    let readers = try (0..<16).map { _ in
      try WorkerThread<Int> { [folder = temp("till.pos")] in
        var records = 0
        do {
          let reader = try TrailReader.open(folder: folder, at: nil)
          while let record = try reader.next() {
            records += 1
            guard records == 5, case .marker = record else { continue }
            held.enter()
            Clock.sleep(milliseconds: 300)
            held.leave()
          }
        } catch { return -1 }
        return records
      }
    }
    #expect(readers.map { $0.join() ?? -2 } == Array(repeating: 9, count: 16))
    // A block is its 64 MiB and a few bytes, so that four of them pass 256 MiB.
    #expect((1...4).contains(held.most), "\(held.most)")
    #expect(isGivenBack)
  }

  @Test func `a reader that waits for something else gives its block back, and goes on where it was`() throws {
    let temp = try TempFolder()
    let folder = temp("till.pos")
    var options = TrailOptions()
    options.blockBytes = 8 << 20
    let writer = try TrailWriter.open(folder: folder, name: till, options: options, now: { 0 })
    for n in 0..<40 {
      _ = try writer.begin(TransactionHeader(commitTime: Int64(n)))
      var payload = ByteWriter(capacity: 100_000)
      payload.append(1)
      payload.appendCounted(try content(100_000, isRandom: true))
      try writer.append(kind: RecordKind.marker, payload.bytes)
      try writer.commit()
    }
    let end = try writer.sync()
    try writer.close()
    var reader = try TrailReader.open(folder: folder, at: nil)
    var (numbers, records) = ([UInt64](), 0)
    while let record = try reader.next() {
      records += 1
      if case .commit(let number, _) = record { numbers.append(number) }
      guard records % 3 == 0, numbers.count < 40 else { continue }
      reader.pause()
      #expect(isGivenBack)
      let checkpoint = reader.checkpoint
      if numbers.count % 10 == 0 { reader = try TrailReader.open(folder: folder, at: checkpoint) }
      #expect(try checkpoint == reader.checkpoint && reader.wait(milliseconds: 0))
    }
    #expect(numbers == Array(1...40) && reader.checkpoint == end)
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
    _ = try whole.prefix(512).withUnsafeBytes { try copy.append($0, at: start, of: source.id, from: "sender") }
    try copy.sync()
    var info = try Trail.info(folder: temp("far.pos"))
    #expect(info.isEmpty && info.onDisk <= 20 << 10)
    let end = try #require(copy.end)
    let count = Int(try source.standing().end.offset)
    _ = try whole[512..<count].withUnsafeBytes { try copy.append($0, at: end, of: source.id, from: "sender") }
    try copy.sync()
    info = try Trail.info(folder: temp("far.pos"))
    #expect(!info.isEmpty && info.onDisk > 20 << 10 && info.onDisk <= 256 << 10)
    try copy.remove()
    #expect(!FileManager.default.fileExists(atPath: temp("far.pos")))
  }
}
