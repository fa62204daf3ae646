import Changes
import CodecKit
import Glibc
import SystemKit

/// Does what takes time in the check of blocks on several threads: checksum, unpacking, chain hash.
///
/// None of that needs the blocks before: the chain hash before a block stands in its header. Who takes the results, one
/// after the other, compares it with what he knows. The threads are shared by all copies of the process and work for one
/// at a time: where several trails come at once, each comes on a thread of its own.
final class BlockCrew: @unchecked Sendable {
  /// A whole block as it came.
  struct Block {
    let header: BlockHeader
    let start: UnsafeRawBufferPointer
    let stored: UnsafeRawBufferPointer
    var size: Int { start.count + stored.count }
  }

  /// What became of a block. The content is valid during the call that brings it.
  struct Opened {
    var checksum: UInt32
    /// Nil where the checksum is wrong.
    var content: Result<UnsafeRawBufferPointer, any Error>?
    /// Behind the block, when what its header says of the chain before it is true.
    var chain = ChainHash.zero
  }

  /// One thread is enough for fewer blocks.
  static let blocksMin = 4
  static let shared = BlockCrew(threads: min(sysconf(Int32(_SC_NPROCESSORS_ONLN)), 4) - 1)

  /// Where one block is worked on.
  private final class Bench {
    let opener = BlockOpener()
    let hasher: SHA256
    var opened = Opened(checksum: 0)
    var isDone = false

    init() throws { hasher = try SHA256() }
  }

  private let threads: Int
  private let condition = Condition()
  // All below only under the lock, but the benches: each belongs to whoever has taken the block for it.
  private var isInUse = false
  private var isStarted = false
  private var benches: [Bench] = []
  private var blocks: [Block] = []
  private var segment: UInt64 = 0
  /// The next block that nobody has taken.
  private var next = 0
  /// How many have been handed on: their benches are free.
  private var handed = 0
  private var busy = 0

  private init(threads: Int) { self.threads = threads }

  static func open(_ block: Block, _ segment: UInt64, _ opener: BlockOpener, _ hasher: SHA256) -> Opened {
    let checksum = CRC32C.of(block.stored, continuing: BlockHeader.checksumStart(block.start))
    guard checksum == block.header.checksum else { return Opened(checksum: checksum, content: nil) }
    let content = Result {
      try opener.unpack(block.header, block.stored, Position(segment: segment, offset: block.header.contentOffset))
    }
    var chain = block.header.chain
    if case .success(let content) = content, !content.isEmpty { chain = hasher.chain(before: chain, content: content) }
    return Opened(checksum: checksum, content: content, chain: chain)
  }

  /// Hands `take` what became of each block, in order, on this thread; stops when it throws. False, and nothing is done,
  /// when the crew is busy or there is none.
  func open(_ blocks: [Block], of segment: UInt64, _ take: (Block, Opened) throws -> Void) throws -> Bool {
    guard threads > 0 else { return false }
    condition.lock()
    guard !isInUse, begin() else {
      condition.unlock()
      return false
    }
    (isInUse, self.blocks, self.segment, next, handed) = (true, blocks, segment, 0, 0)
    condition.tell()
    defer {
      next = blocks.count
      while busy > 0 { condition.wait() }
      self.blocks.removeAll(keepingCapacity: true)
      for bench in benches { bench.isDone = false }
      isInUse = false
      condition.unlock()
    }
    for (number, block) in blocks.enumerated() {
      let bench = benches[number % benches.count]
      while !bench.isDone { if !work() { condition.wait() } }
      bench.isDone = false
      let opened = bench.opened
      condition.unlock()
      let result = Result { try take(block, opened) }
      condition.lock()
      try result.get()
      handed += 1
      condition.tell()
    }
    return true
  }

  /// Takes a block, if there is one for which a bench is free. Under the lock, which is given up meanwhile.
  private func work() -> Bool {
    guard next < min(blocks.count, handed + benches.count) else { return false }
    let (block, bench) = (blocks[next], benches[next % benches.count])
    next += 1
    busy += 1
    condition.unlock()
    bench.opened = Self.open(block, segment, bench.opener, bench.hasher)
    condition.lock()
    bench.isDone = true
    busy -= 1
    condition.tell()
    return true
  }

  private func begin() -> Bool {
    if isStarted { return !benches.isEmpty }
    isStarted = true
    benches = (try? (0..<threads * 4).map { _ in try Bench() }) ?? []
    guard !benches.isEmpty else { return false }
    for _ in 0..<threads {
      detached { [self] in
        condition.lock()
        while true { if !work() { condition.wait() } }
      }
    }
    return true
  }
}
