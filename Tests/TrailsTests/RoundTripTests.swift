import Changes
import Foundation
import TestServers
import Testing

@testable import Trails

@Suite struct RoundTripTests {
  @Test(arguments: 0..<24)
  func `random transactions are read as they were written`(run: Int) throws {
    let seed = UInt64.random(in: 0 ... .max)
    try roundTrip(seed: seed, run: run)
  }

  /// Prints the seed, with which a failure can be repeated.
  private func roundTrip(seed: UInt64, run: Int) throws {
    let comment: Comment = "seed \(seed), run \(run)"
    print("round trip: seed \(seed), run \(run)")
    var random = Seeded(seed)
    let temp = try TempFolder()
    let folder = temp("state/till-7.pos")
    let options = TrailOptions.small(
      block: [32, 300, 4096, 65536].randomElement(using: &random) ?? 32,
      segment: [1, 5000, 50_000].randomElement(using: &random) ?? 1, compress: run % 2 == 0)
    var script = Script(try openWriter(folder, options))
    var checkpoints: [Checkpoint] = []
    for _ in 0..<Int.random(in: 1...40, using: &random) {
      try write(&random, script)
      switch Int.random(in: 0...5, using: &random) {
      case 0...2: try checkpoints.append(script.writer.sync())
      case 3:
        let committed = script.committed
        try script.writer.close()
        script = Script(try openWriter(folder, options), committed: committed)
        #expect(script.writer.recovery == nil, comment)
      default: break
      }
    }
    try script.writer.close()
    #expect(try readAll(folder) == script.committed, comment)
    let summary = try Trail.verify(folder: folder)
    #expect(summary.transactions == script.writer.lastHeader?.number ?? 0, comment)
    for checkpoint in checkpoints {
      let rest = try TrailReader.open(folder: folder, at: checkpoint).rest()
      #expect(Array(script.committed.suffix(rest.count)) == rest, comment)
    }
  }

  private func write(_ random: inout Seeded, _ script: Script) throws {
    let position = random.bytes(Int.random(in: 0...30, using: &random))
    try script.begin(time: Int64.random(in: -5...(1 << 50), using: &random), position: position)
    for _ in 0..<Int.random(in: 0...12, using: &random) {
      let id = try script.schema(token: UInt64.random(in: 1...5, using: &random))
      let values = [random.value(), random.value()]
      switch Int.random(in: 0...9, using: &random) {
      case 0: try script.refreshRow(values, schema: id)
      case 1: try other(&random, script, id)
      case 2: try script.insert([.blob(random.bytes(5000)), nil], schema: id)
      default: try script.insert(values, schema: id)
      }
    }
    if Int.random(in: 0...6, using: &random) == 0 { try script.abandon() } else { try script.commit() }
  }

  private func other(_ random: inout Seeded, _ script: Script, _ id: UInt64) throws {
    switch Int.random(in: 0...5, using: &random) {
    case 0:
      let bounds: [[Value?]?] = [nil, [.integer(7), nil]]
      let refresh = Refresh(schemaID: id, event: .chunk(.keys(after: bounds[0], through: bounds[1])))
      try script.append(RecordKind.refresh, .refresh(refresh)) { $0.append(refresh) }
    case 1:
      let refresh = Refresh(schemaID: id, event: .start(.asked, .byKey, estimatedRows: 1000))
      try script.append(RecordKind.refresh, .refresh(refresh)) { $0.append(refresh) }
    case 2:
      let ddl = DDL(action: .reshape, before: id, after: id, text: "ALTER TABLE items ADD COLUMN x")
      try script.append(RecordKind.ddl, .ddl(ddl)) { $0.append(ddl) }
    case 3:
      try script.append(RecordKind.progress, .progress([1, 2], -9)) {
        $0.appendCounted([1, 2])
        $0.appendZigzag(-9)
      }
    case 4:
      try script.append(RecordKind.marker, .marker(1, "zwölf")) {
        $0.append(1)
        $0.appendString("zwölf")
      }
    default:
      let bytes = random.bytes(9)
      try script.append(RecordKind.reserved, .reserved(RecordKind.reserved, bytes)) { $0.append(bytes) }
    }
  }

  @Test func `an unknown optional record is skipped and an unknown mandatory one is refused`() throws {
    let temp = try TempFolder()
    let script = Script(try openWriter(temp("t.a")))
    try script.begin()
    try script.append(0xf3, nil) { $0.append([1, 2, 3]) }
    try script.commit()
    try script.writer.sync()
    #expect(try readAll(temp("t.a")) == script.committed)

    try script.begin()
    try script.append(0x21, nil) { $0.append([1, 2, 3]) }
    try script.commit()
    let second = script.committed.count - 1
    try script.writer.close()
    let (seen, error) = readUntilError(temp("t.a"))
    #expect(seen == Array(script.committed[..<second]))
    #expect(error?.code == .trailVersion)
    fails(.trailVersion) { _ = try openWriter(temp("t.a")) }
  }

  @Test func `a payload may be longer than the fields that are known`() throws {
    let temp = try TempFolder()
    let script = Script(try openWriter(temp("t.a")))
    try script.begin()
    try script.append(RecordKind.marker, .marker(1, "a")) {
      $0.append(1)
      $0.appendString("a")
      $0.append([7, 7, 7])
    }
    try script.commit()
    try script.writer.close()
    #expect(try readAll(temp("t.a")) == script.committed)
  }
}
