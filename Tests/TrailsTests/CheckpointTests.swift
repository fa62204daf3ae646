import Changes
import Foundation
import TestServers
import Testing

@testable import Trails

@Suite struct CheckpointTests {
  private let temp: TempFolder
  private let folder: String
  private let committed: [Seen]
  private let options = TrailOptions.small(block: 400, segment: 1200, compress: true)

  init() throws {
    temp = try TempFolder()
    folder = temp("state/till-7.pos")
    let script = Script(try openWriter(folder, options))
    for rows in 0..<24 {
      try script.transaction(rows: rows % 5, bytes: rows)
      if rows % 3 == 0 { try script.writer.sync() }
    }
    try script.writer.close()
    committed = script.committed
    #expect(try Trail.info(folder: folder).segments.count > 2)
  }

  private func checkpoints() throws -> [(Checkpoint, Int)] {
    let reader = try TrailReader.open(folder: folder, at: nil)
    var all = [(reader.checkpoint, 0)]
    var count = 0
    while let record = try reader.next() {
      count += 1
      if case .commit = record { all.append((reader.checkpoint, count)) }
    }
    all.append((reader.checkpoint, count))
    return all
  }

  @Test func `a reader goes on after every commit`() throws {
    let all = try checkpoints()
    #expect(all.count > 20)
    #expect(all.last?.0 == (try Trail.info(folder: folder).end))
    for (checkpoint, count) in all {
      let reader = try TrailReader.open(folder: folder, at: checkpoint)
      #expect(reader.checkpoint == checkpoint)
      #expect(try reader.rest() == Array(committed[count...]))
    }
  }

  @Test func `a checkpoint does not depend on when it is asked for`() throws {
    let all = try checkpoints()
    for (index, (_, count)) in all.enumerated().dropFirst() {
      let reader = try TrailReader.open(folder: folder, at: nil)
      for _ in 0..<count { _ = try reader.next() }
      let same = all.filter { $0.1 == count }.map(\.0)
      #expect(same.contains(reader.checkpoint), "\(index)")
      _ = try reader.next()
      // Part of the next transaction, perhaps of the next block or segment, has been read.
      let later = reader.checkpoint
      #expect(later.chain == all[index].0.chain)
      #expect(try TrailReader.open(folder: folder, at: later).rest() == Array(committed[count...]))
    }
  }

  @Test func `a checkpoint that is not of this trail is refused`() throws {
    let all = try checkpoints()
    let good = all[7].0
    let other = temp("state/other.pos")
    let script = Script(try TrailWriter.open(folder: other, name: till, options: options, now: { 0 }))
    try script.transaction()
    try script.writer.close()
    fails(.checkpointForeign) { _ = try TrailReader.open(folder: other, at: good) }

    var chain = good.chain.bytes
    chain[31] ^= 1
    let wrong = Checkpoint(trail: good.trail, position: good.position, chain: try #require(ChainHash(chain)))
    fails(.checkpointForeign) { _ = try TrailReader.open(folder: folder, at: wrong) }

    let end = try #require(all.last).0
    var places = [good.position, end.position, .start]
    places[0].offset += 1
    places[1].offset += 1
    places[2].segment = 99
    places.append(Position(segment: 0, offset: 0))
    places.append(Position(segment: end.position.segment, offset: .max))
    places.append(Position(segment: 1, offset: .max))
    places.append(Position(segment: .max, offset: .max))
    for position in places {
      let error = fails(.checkpointForeign, "\(position)") {
        _ = try TrailReader.open(
          folder: folder, at: Checkpoint(trail: good.trail, position: position, chain: good.chain))
      }
      #expect(error?.message.contains("\(position)") == true)
      #expect(error?.hint.contains("refresh") == true)
    }
  }

  @Test func `a checkpoint before the oldest segment is refused`() throws {
    let all = try checkpoints()
    let end = try Trail.info(folder: folder).end
    #expect(try !Trail.purge(folder: folder, below: end.position).isEmpty)
    fails(.checkpointForeign) { _ = try TrailReader.open(folder: folder, at: all[1].0) }
    #expect(try TrailReader.open(folder: folder, at: end).rest().isEmpty)
  }

  /// After a power cut the mark may be older than what readers have seen.
  @Test func `a checkpoint after the mark waits until the writer has recovered`() throws {
    let folder = temp("late.pos")
    let script = Script(try openWriter(folder, .small(block: 1000)))
    try script.transaction()
    try script.writer.sync()
    let older = try contents("\(folder)/durable")
    try script.transaction()
    try script.transaction()
    let checkpoint = try script.writer.sync()
    let reader = try TrailReader.open(folder: folder, at: nil)
    while reader.commitPosition < checkpoint.position { _ = try reader.next() }
    try script.transaction()
    try script.writer.close()
    try put(older, "\(folder)/durable")

    let late = try TrailReader.open(folder: folder, at: checkpoint)
    #expect(try late.next() == nil)
    #expect(late.checkpoint == checkpoint)
    #expect(try late.wait(milliseconds: 1) == false)
    var wrong = checkpoint
    wrong.position.offset += 1
    fails(.checkpointForeign) { _ = try TrailReader.open(folder: folder, at: wrong) }

    let next = Script(try openWriter(folder, .small()), committed: script.committed)
    #expect(try late.wait(milliseconds: 1000))
    let rest = try late.rest()
    #expect(rest.count == 3 && rest == Array(script.committed.suffix(3)))
    try next.transaction()
    try next.writer.sync()
    #expect(try late.rest() == Array(next.committed.suffix(4)))
  }
}
