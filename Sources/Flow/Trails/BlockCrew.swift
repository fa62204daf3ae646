import Changes
import CodecKit
import Glibc
import SystemKit

/// Checks many blocks of a trail copy on several threads, and passes the results in order. All copies of the process
/// share the threads, which work for one copy at a time.
final class BlockCrew: @unchecked Sendable {
  struct Block {
    let header: BlockHeader
    let start: UnsafeRawBufferPointer
    let stored: UnsafeRawBufferPointer
    var size: Int { start.count + stored.count }
  }

  /// The result of checking a block, valid only while the caller processes it.
  struct Opened {
    var checksum: UInt32
    /// The unpacked content, or the error of unpacking; nil if the checksum is wrong.
    var content: Result<UnsafeRawBufferPointer, any Error>?
    /// The chain hash after the block. It is right only if the chain hash in the block's header is right.
    var chain = ChainHash.zero
  }

  /// The minimum number of blocks that several threads check together. The calling thread checks fewer blocks alone.
  static let blocksMin = 4
  static let shared = BlockCrew(threads: min(sysconf(Int32(_SC_NPROCESSORS_ONLN)), 4) - 1)

  private final class Bench {
    let opener = BlockOpener()
    let hasher: SHA256
    var opened = Opened(checksum: 0)
    var isDone = false

    init() throws { hasher = try SHA256() }
  }

  private let threads: Int
  private let condition = Condition()
  // The variables below are accessed only under the lock, except the work area of a block: only the thread that checks
  // the block uses it.
  private var isInUse = false
  private var isStarted = false
  private var benches: [Bench] = []
  private var blocks: [Block] = []
  private var segment: UInt64 = 0
  private var next = 0
  /// The number of blocks whose results the caller has processed. Their work areas are free for further blocks.
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

  /// Checks blocks, and calls `take` with each result, in order, on the calling thread. Returns false, without a call
  /// of `take`, if this machine has one processor only or another copy uses the threads.
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

  /// Checks the first block that no thread has begun to check. Returns false if there is none, or if no work area is
  /// free. The caller holds the lock, which this function releases during the check.
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
      // With fewer threads, the caller does more of the work.
      try? detached { [self] in
        condition.lock()
        while true { if !work() { condition.wait() } }
      }
    }
    return true
  }
}
