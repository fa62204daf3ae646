import Changes
import Foundation
import TestServers
import Testing

@testable import Trails

/// A trail and a copy of it, and what brings bytes from one to the other.
struct CopyPair {
  let temp: TempFolder
  var origin: String { temp("origin/till-7.pos") }
  var copy: String { temp("copy/till-7.pos") }

  init() throws { temp = try TempFolder() }

  /// Some segments with rows of many sizes; the last segment is live.
  func write(
    transactions: Int = 40, rows: Int = 20, bytes: Int = 60, _ options: TrailOptions = .small(), seed: UInt64 = 1
  ) throws {
    var random = Seeded(seed)
    let script = Script(try openWriter(origin, options))
    for _ in 0..<transactions {
      try script.transaction(
        rows: Int.random(in: 1...rows, using: &random), bytes: Int.random(in: 0...bytes, using: &random))
      if Bool.random(using: &random) { try script.writer.sync() }
    }
    try script.writer.close()
  }

  func open() throws -> TrailCopy { try TrailCopy.open(folder: copy, name: till) }

  /// Copies until nothing is left, in pieces that the feed gets in pieces.
  func bring(
    _ copy: TrailCopy, max: Int = 4 << 20, then: (TrailCopy) throws -> TrailCopy = { $0 },
    cut: () -> Int = { 1 << 20 }, memory: BlockMemory = .shared
  ) throws {
    var copy = copy
    let source = try SegmentSource.open(folder: origin)
    let standing = try source.standing()
    var place = try #require(try copy.end ?? source.start(of: standing.oldest))
    while try source.judge(place) == .follows, let piece = try source.piece(at: place, max: max) {
      var bytes = [UInt8](repeating: 0, count: piece.count)
      try bytes.withUnsafeMutableBytes { buffer throws in try source.read(piece, into: buffer) }
      let feed = CopyFeed(trail: source.id, at: place, from: "sender", memory: memory)
      var at = 0
      while at < bytes.count {
        let end = min(bytes.count, at + Swift.max(1, cut()))
        try bytes[at..<end].withUnsafeBytes { buffer throws in try feed.take(buffer, for: copy) }
        at = end
      }
      let isWhole = feed.isWhole
      #expect(isWhole)
      let reached = try #require(try copy.sync())
      #expect(reached.end == piece.next)
      place = piece.next
      copy = try then(copy)
    }
    #expect(try source.judge(place) == .atEnd)
  }

  /// Every segment of the copy is that of the origin, byte for byte, up to the durable end.
  func expectEqual(sourceLocation: SourceLocation = #_sourceLocation) throws {
    let (a, b) = (try Trail.info(folder: origin), try Trail.info(folder: copy))
    #expect(a.end == b.end && a.lastTransaction == b.lastTransaction, sourceLocation: sourceLocation)
    for segment in b.segments {
      let name = segment.number.hex(8) + ".seg"
      let count = Int(segment.bytes)
      #expect(
        try contents("\(origin)/\(name)").prefix(count) == contents("\(copy)/\(name)").prefix(count), "\(name)",
        sourceLocation: sourceLocation)
    }
    #expect(a.segments.suffix(b.segments.count) == b.segments[...], sourceLocation: sourceLocation)
  }
}

@Suite struct CopyTests {
  private let pair: CopyPair

  init() throws { pair = try CopyPair() }

  @Test(arguments: [1, 7, 100, 3000, 1 << 20], [false, true])
  func `a copy that comes in pieces is equal byte for byte`(cut: Int, compress: Bool) throws {
    try pair.write(.small(compress: compress), seed: UInt64(cut))
    var random = Seeded(UInt64(cut))
    let copy = try pair.open()
    #expect(try copy.sync() == nil)
    try pair.bring(copy, max: 2000, cut: { Int.random(in: 1...cut, using: &random) })
    try copy.close()
    try pair.expectEqual()
    #expect(try Trail.info(folder: pair.copy).segments.count > 3)
    #expect(try readAll(pair.copy) == readAll(pair.origin))
    #expect(try Trail.verify(folder: pair.copy) == Trail.verify(folder: pair.origin))
  }

  @Test func `a copy goes on where it stopped, and follows a writer`() throws {
    for round in 0..<5 {
      try pair.write(transactions: 7, seed: UInt64(round))
      let copy = try pair.open()
      #expect(copy.recovery == nil)
      try pair.bring(copy)
      try copy.close()
      try pair.expectEqual()
    }
  }

  @Test func `an empty trail is copied as such`() throws {
    try openWriter(pair.origin).close()
    let copy = try pair.open()
    try pair.bring(copy)
    try copy.close()
    try pair.expectEqual()
    #expect(try readAll(pair.copy).isEmpty)
  }

  @Test func `a copy may begin at a later segment, and be recovered, read and purged`() throws {
    try pair.write()
    let info = try Trail.info(folder: pair.origin)
    _ = try Trail.purge(folder: pair.origin, below: Position(segment: info.segments[2].number, offset: 0))
    try pair.bring(pair.open(), max: 3000) { old in
      try old.close()
      let copy = try pair.open()
      #expect(copy.recovery == nil)
      return copy
    }
    try pair.expectEqual()
    #expect(try readAll(pair.copy) == readAll(pair.origin))
    _ = try Trail.verify(folder: pair.copy)
    let end = try Trail.info(folder: pair.copy).end
    #expect(try !Trail.purge(folder: pair.copy, below: end.position).isEmpty)
    #expect(try pair.open().sync()?.oldest ?? 0 >= end.position.segment - 1)
  }

  @Test func `a transaction of many blocks is resumed inside, and read when it is whole`() throws {
    let script = Script(try openWriter(pair.origin, .small(block: 4096, segment: 1 << 20)))
    try script.transaction()
    try script.transaction(rows: 300, bytes: 3000)
    try script.writer.close()
    var inside = 0
    try pair.bring(pair.open(), max: 50_000) { old in
      let standing = try #require(try old.sync())
      if standing.lastTransaction == 1, standing.position.offset > 50_000 {
        inside += 1
        #expect(try readAll(pair.copy).count < 10)
      }
      try old.close()
      let copy = try pair.open()
      #expect(try copy.sync() == standing)
      return copy
    }
    #expect(inside > 10)
    try pair.expectEqual()
    #expect(try readAll(pair.copy) == script.committed)
  }

  @Test func `a copy that was torn anywhere goes on to be equal`() throws {
    try pair.write(transactions: 40, rows: 9, .small(block: 300, segment: 3000))
    let copy = try pair.open()
    try pair.bring(copy)
    try copy.close()
    let segments = try Trail.info(folder: pair.copy).segments
    let whole = pair.temp("whole")
    try copyFolder(pair.copy, whole)
    // A power cut may leave any length of the last segment that was being written, and the mark at its start.
    var first = true
    for segment in segments {
      let path = "\(pair.copy)/\(segment.number.hex(8)).seg"
      let bytes = try contents("\(whole)/\(segment.number.hex(8)).seg").prefix(Int(segment.bytes))
      for length in stride(from: 0, through: bytes.count, by: isSoak ? 13 : 997) {
        try copyFolder(whole, pair.copy)
        for later in segments where later.number > segment.number {
          try FileManager.default.removeItem(atPath: "\(pair.copy)/\(later.number.hex(8)).seg")
        }
        if first, length < 512 { continue }
        try put(bytes.prefix(length), path)
        // The mark is at the end of the previous segment, or at the start of the first.
        let before = length < 512 ? segment.number - 1 : segment.number
        try mark(at: before, of: whole, segments)
        let copy = try pair.open()
        try pair.bring(copy)
        try copy.close()
        try pair.expectEqual()
      }
      first = false
    }
  }

  /// Puts the mark of the copy back to the start of a segment.
  private func mark(at segment: UInt64, of whole: String, _ segments: [TrailInfo.Segment]) throws {
    let folder = TrailFolder(pair.copy)
    let file = try MarkFile(folder.markPath, .readWrite)
    var mark = try #require(try file.newest())
    let header = try SegmentHeader.read(.init("\(whole)/\(segment.hex(8)).seg", .read), number: segment)
    mark.generation += 1
    mark.segment = segment
    mark.fileOffset = header.length
    mark.contentOffset = 0
    mark.chain = header.chain
    mark.lastTransaction = header.firstTransaction - 1
    try file.write(mark)
    mark.generation += 1
    try file.write(mark)
  }

  @Test func `a flipped byte anywhere is refused, and harms nothing`() throws {
    try pair.write(transactions: 6, rows: 4, .small(block: 300))
    let source = try SegmentSource.open(folder: pair.origin)
    let start = try #require(try source.start(of: 1))
    let piece = try #require(try source.piece(at: start, max: 1 << 20))
    var good = [UInt8](repeating: 0, count: piece.count)
    try good.withUnsafeMutableBytes { buffer throws in try source.read(piece, into: buffer) }
    var copy = try pair.open()
    for offset in good.indices {
      var bad = good
      bad[offset] ^= 0x10
      let feed = CopyFeed(trail: source.id, at: copy.end ?? start, from: "sender")
      let from = copy.end.map { Int($0.offset) } ?? 0
      if offset < from { continue }
      do {
        try bad[from...].withUnsafeBytes { buffer throws in try feed.take(buffer, for: copy) }
        // A length that grew: the rest is waited for.
        let isWhole = feed.isWhole
        #expect(!isWhole, "\(offset)")
      } catch let error as CairnError {
        // A length that became too large for any peer is refused before its checksum is seen.
        #expect([.trailDamaged, .trailVersion, .usage].contains(error.code), "\(offset): \(error)")
      }
      if offset % 50 == 0 {
        try copy.close()
        copy = try pair.open()
      }
    }
    try pair.bring(copy)
    try copy.close()
    try pair.expectEqual()
  }

  @Test(arguments: [0, 1, 20, 38])
  func `if many blocks come at once, those before a broken one are kept`(broken: Int) throws {
    try pair.write(transactions: 120, rows: 8, .small(block: 600, segment: 1 << 20, compress: true))
    let source = try SegmentSource.open(folder: pair.origin)
    let start = try #require(try source.start(of: 1))
    let piece = try #require(try source.piece(at: start, max: 1 << 20))
    var bytes = [UInt8](repeating: 0, count: piece.count)
    try bytes.withUnsafeMutableBytes { buffer throws in try source.read(piece, into: buffer) }
    var offset = try bytes.withUnsafeBytes { try SegmentHeader.length(of: $0, number: 1) }
    for _ in 0..<broken {
      offset += BlockHeader.size + Int(bytes[offset + 4]) + Int(bytes[offset + 5]) << 8
    }
    bytes[offset + BlockHeader.size + 3] ^= 1
    let copy = try pair.open()
    let feed = CopyFeed(trail: source.id, at: start, from: "sender")
    let error = #expect(throws: CairnError.self) {
      try bytes.withUnsafeBytes { buffer throws in try feed.take(buffer, for: copy) }
    }
    #expect(error?.message.contains("block checksum") == true)
    #expect(try copy.sync()?.end.offset == UInt64(offset))
    try pair.bring(copy)
    try copy.close()
    try pair.expectEqual()
  }

  @Test func `the facts of sealed segments are read once`() throws {
    try pair.write()
    let earlier = try Trail.info(folder: pair.origin)
    #expect(earlier.segments.count > 3)
    // A segment without a header can be read no more.
    let first = URL(fileURLWithPath: pair.origin + "/00000001.seg")
    let bytes = try Data(contentsOf: first)
    try Data().write(to: first)
    #expect(throws: CairnError.self) { _ = try Trail.info(folder: pair.origin) }
    #expect(try Trail.info(folder: pair.origin, since: earlier) == earlier)
    try pair.write(seed: 2)
    let later = try Trail.info(folder: pair.origin, since: earlier)
    try Data("index".utf8).write(to: URL(fileURLWithPath: pair.origin + "/00000002.idx"))
    #expect(try Trail.info(folder: pair.origin, since: later).segments[1].indexed > 0)
    // Facts of another trail, or of one that has begun again, count for nothing.
    var other = later
    other.id = try #require(TrailID(Array(repeating: 1, count: 16)))
    #expect(throws: CairnError.self) { _ = try Trail.info(folder: pair.origin, since: other) }
    (other.id, other.lastTransaction) = (later.id, later.lastTransaction + 1)
    #expect(throws: CairnError.self) { _ = try Trail.info(folder: pair.origin, since: other) }
    try bytes.write(to: first)
    #expect(try Trail.info(folder: pair.origin) == later && later.segments.count > earlier.segments.count)
    #expect(try Trail.purge(folder: pair.origin, below: later.end.position).count > 3)
    #expect(try Trail.info(folder: pair.origin, since: later) == Trail.info(folder: pair.origin))
  }

  @Test func `gaps, forks and foreign trails are distinguished`() throws {
    try pair.write()
    let copy = try pair.open()
    let source = try SegmentSource.open(folder: pair.origin)
    let start = try #require(try source.start(of: 1))
    let later = try #require(try source.start(of: 2))
    let feed = CopyFeed(trail: source.id, at: start, from: "sender")
    let piece = try #require(try source.piece(at: start, max: 1500))
    var bytes = [UInt8](repeating: 0, count: piece.count)
    try bytes.withUnsafeMutableBytes { buffer throws in try source.read(piece, into: buffer) }
    try bytes.withUnsafeBytes { buffer throws in try feed.take(buffer, for: copy) }
    func code(_ place: TrailPlace, _ id: TrailID, _ code: ErrorCode) {
      fails(code) {
        let feed = CopyFeed(trail: id, at: place, from: "sender")
        try bytes.withUnsafeBytes { buffer throws in try feed.take(buffer, for: copy) }
      }
    }
    // A repeated request, a gap, another history, another trail.
    code(start, source.id, .trailElsewhere)
    code(later, source.id, .trailElsewhere)
    var forked = piece.next
    forked.chain = start.chain
    code(forked, source.id, .trailForked)
    code(piece.next, try #require(TrailID(Array(repeating: 1, count: 16))), .trailForked)
    #expect(copy.end == piece.next)
    fails(.trailBusy) { _ = try pair.open() }
    try pair.bring(copy)
    try copy.close()
    try pair.expectEqual()
    fails(.stateForeign) {
      _ = try TrailCopy.open(folder: pair.copy, name: TrailName(origin: "till-8", name: "pos"))
    }
  }

  @Test func `a source judges places`() throws {
    try pair.write()
    let source = try SegmentSource.open(folder: pair.origin)
    let standing = try source.standing()
    var place = try #require(try source.start(of: 1))
    var count = 0
    while let piece = try source.piece(at: place, max: 700) {
      #expect(try source.judge(place) == .follows)
      var other = place
      other.chain = try #require(ChainHash(Array(repeating: 7, count: 32)))
      #expect(try source.judge(other) == .forked)
      other = place
      other.offset += 1
      #expect(try source.judge(other) == .forked)
      place = piece.next
      count += 1
    }
    #expect(count > 20)
    #expect(place == standing.end)
    #expect(try source.judge(place) == .atEnd)
    place.offset += 100
    #expect(try source.judge(place) == .beyond)
    #expect(try source.judge(segment: standing.end.segment + 1, offset: 0, chain: nil) == .beyond)
    #expect(try source.judge(segment: 2, offset: 0, chain: nil) == .follows)
    // The next segment starts after a seal.
    let size = UInt64(try contents("\(pair.origin)/00000001.seg").count)
    #expect(try source.judge(segment: 1, offset: size, chain: source.start(of: 2)?.chain) == .follows)
    _ = try Trail.purge(folder: pair.origin, below: Position(segment: 3, offset: 0))
    #expect(try source.judge(segment: 1, offset: 0, chain: .zero) == .purged)
    #expect(try source.standing().oldest == 3)
    let file = try #require(try source.file(3))
    #expect(file.isSealed)
    #expect(try source.file(1) == nil)
  }

  @Test func `a copy begins again at a later segment, and its readers notice`() throws {
    try pair.write(transactions: 5)
    var copy = try pair.open()
    try pair.bring(copy)
    let reader = try TrailReader.open(folder: pair.copy, at: nil)
    let other = try TrailReader.open(folder: pair.copy, at: nil)
    _ = try reader.rest()
    let checkpoint = reader.checkpoint
    _ = try other.next()
    try pair.write(transactions: 60, seed: 2)
    let info = try Trail.info(folder: pair.origin)
    let oldest = info.segments[info.segments.count - 2].number
    _ = try Trail.purge(folder: pair.origin, below: Position(segment: oldest, offset: 0))
    let source = try SegmentSource.open(folder: pair.origin)
    let end = try #require(copy.end)
    #expect(try source.judge(end) == .purged)
    let start = try #require(try source.start(of: oldest))
    let piece = try #require(try source.piece(at: start, max: 1500))
    var bytes = [UInt8](repeating: 0, count: piece.count)
    try bytes.withUnsafeMutableBytes { buffer throws in try source.read(piece, into: buffer) }
    func restart(_ copy: TrailCopy, behind end: TrailPlace) throws {
      let feed = CopyFeed(trail: source.id, at: start, from: "sender", restartsBehind: end)
      try bytes.withUnsafeBytes { buffer throws in try feed.take(buffer, for: copy) }
    }
    var wrong = end
    wrong.offset -= 1
    fails(.trailElsewhere) { try restart(copy, behind: wrong) }
    #expect(copy.end == end)
    try copy.close()

    // Killed between two steps: the segment is there without the mark, or the old ones are still there.
    let saved = pair.temp("saved")
    try copyFolder(pair.copy, saved)
    let header = bytes.prefix(512)
    try put(header, "\(pair.copy)/\(oldest.hex(8)).seg")
    copy = try pair.open()
    #expect(copy.end == end)
    try restart(copy, behind: end)
    #expect(copy.end == piece.next)
    fails(.trailElsewhere) { try restart(copy, behind: end) }
    try copy.close()
    for segment in try TrailFolder(saved).segments() {
      try FileManager.default.copyItem(
        atPath: "\(saved)/\(segment.hex(8)).seg", toPath: "\(pair.copy)/\(segment.hex(8)).seg")
    }
    copy = try pair.open()
    #expect(copy.end == piece.next)
    #expect(try copy.sync()?.oldest == oldest)
    try pair.bring(copy)
    try pair.expectEqual()
    try copy.close()
    #expect(try readAll(pair.copy) == readAll(pair.origin))

    fails(.checkpointForeign) { _ = try reader.next() }
    fails(.checkpointForeign) { _ = try other.rest() }
    fails(.checkpointForeign) { _ = try TrailReader.open(folder: pair.copy, at: checkpoint) }
  }

  @Test func `a reader tails a copy and sees whole transactions only`() throws {
    try pair.write(transactions: 1)
    let copy = try pair.open()
    try pair.bring(copy)
    let reader = try TrailReader.open(folder: pair.copy, at: nil)
    var seen = try reader.rest()
    for round in 0..<10 {
      try pair.write(transactions: 6, seed: UInt64(round))
      try pair.bring(copy, max: 900) { copy in
        seen += try reader.rest()
        guard case .commit = seen.last else {
          Issue.record("the reader stopped inside of a transaction")
          return copy
        }
        return copy
      }
    }
    #expect(try seen == readAll(pair.origin))
  }

  @Test func `two senders of one copy do no harm to each other`() throws {
    try pair.write()
    let copy = try pair.open()
    let source = try SegmentSource.open(folder: pair.origin)
    let start = try #require(try source.start(of: 1))
    let piece = try #require(try source.piece(at: start, max: 1 << 20))
    var bytes = [UInt8](repeating: 0, count: piece.count)
    try bytes.withUnsafeMutableBytes { buffer throws in try source.read(piece, into: buffer) }
    let a = CopyFeed(trail: source.id, at: start, from: "sender")
    let b = CopyFeed(trail: source.id, at: start, from: "sender")
    try bytes[..<700].withUnsafeBytes { buffer throws in try a.take(buffer, for: copy) }
    fails(.trailElsewhere) {
      try bytes[..<900].withUnsafeBytes { buffer throws in try b.take(buffer, for: copy) }
    }
    try bytes[700...].withUnsafeBytes { buffer throws in try a.take(buffer, for: copy) }
    #expect(copy.end == piece.next)
    try pair.bring(copy)
    try copy.close()
    try pair.expectEqual()
  }
}
