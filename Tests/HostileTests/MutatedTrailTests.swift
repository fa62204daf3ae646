import Applying
import Changes
import Foundation
import HostilePeer
import Operating
import SQLiteKit
import SystemKit
import TestServers
import Testing
import Trails

/// Whether the long tests run in full.
let isSoak = ProcessInfo.processInfo.environment["CAIRN_SOAK"] != nil

/// The seed of a random test, printed so that the run can be repeated with CAIRN_SEED.
func seed(_ test: String) -> UInt64 {
  let given = ProcessInfo.processInfo.environment["CAIRN_SEED"].flatMap { UInt64($0) }
  let seed = given ?? UInt64.random(in: 0...9_999_999)
  print("\(test): CAIRN_SEED=\(seed)")
  return seed
}

/// How often a random test is repeated; CAIRN_COUNT sets it.
func count(_ usual: Int, soak: Int) -> Int {
  ProcessInfo.processInfo.environment["CAIRN_COUNT"].flatMap { Int($0) } ?? (isSoak ? soak : usual)
}

/// Resident memory of this process.
var residentBytes: Int {
  let words = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ") ?? []
  return (words.count > 1 ? Int(words[1]) ?? 0 : 0) * 4096
}

/// One after the other: each looks at the memory of the process.
@Suite(.serialized) enum Hostile {}

extension Hostile {
  /// Trails of a hostile peer: valid by checksum and chain, hostile in every record. Nothing may stop the process.
  @Suite struct MutatedTrailTests {
    private static let name = TrailName(origin: "evil", name: "x")

    private func temp() throws -> String {
      let path = FileManager.default.temporaryDirectory.path + "/cairn-hostile-" + UUID().uuidString
      try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
      return path
    }

    /// Takes a segment as a peer's copy does, and reads what has passed in every way. Returns whether there is a trail.
    private func take(_ segment: HostileSegment, _ bytes: [UInt8], into folder: String) throws -> Bool {
      let copy = try TrailCopy.open(folder: folder, name: segment.name)
      let place = TrailPlace(segment: segment.number, offset: 0, chain: segment.start)
      do {
        let feed = CopyFeed(trail: segment.id, at: place)
        try bytes.withUnsafeBytes { try feed.take($0, for: copy) }
      } catch is CairnError {}
      do { _ = try copy.sync() } catch is CairnError {}
      guard copy.hasBegun else {
        copy.discard()
        return false
      }
      do { try copy.close() } catch is CairnError {}
      return true
    }

    private func read(_ folder: String) throws {
      do { _ = try Trail.verify(folder: folder) } catch is CairnError {}
      for dialect in [TrailSQL.Dialect.sqlite, .postgres] {
        do {
          let reader = try TrailReader.open(folder: folder, at: nil)
          var sql = TrailSQL(dialect)
          while let record = try reader.next() {
            _ = try sql.render(record, at: reader.position, schema: reader.schema)
          }
        } catch is CairnError {} catch is Changes.DecodingError {}
      }
      for segment in try Trail.info(folder: folder).segments { _ = UTCTime(segment.created).description }
    }

    /// Applies the trail to a database in which the canary stands.
    private func apply(_ folder: String, _ target: String) throws {
      let database = try Database(path: target, mode: .create)
      try database.executeScript(
        "CREATE TABLE IF NOT EXISTS salaries(id INTEGER PRIMARY KEY, pay INT);"
          + "INSERT OR IGNORE INTO salaries VALUES (1, 100)")
      let stop = StopSignal()
      let drain = StopSignal()
      drain.set()
      do {
        let apply = try SQLiteApply(
          path: target, trail: folder, name: Self.name, options: .init(), clock: .system, progress: ApplyProgress())
        try apply.run(stop: stop, drain: drain)
      } catch is CairnError {} catch is SQLiteError {} catch is Changes.DecodingError {}
    }

    @Test func `mutated trails of every kind of record stop nothing`() throws {
      let count = count(600, soak: 100_000)
      var random = Seeded(seed("mutated trails, \(count)"))
      let root = try temp()
      defer { try? FileManager.default.removeItem(atPath: root) }
      var (taken, applied) = (0, 0)
      let before = residentBytes
      let start = Clock.monotonicMilliseconds
      for n in 0..<count {
        let segment = HostileTrails.segment(Self.name, &random)
        var bytes = segment.bytes
        if Int.random(in: 0..<5, using: &random) == 0 {
          // Checksums are wrong then, or the body ends anywhere.
          bytes[Int.random(in: 0..<bytes.count, using: &random)] ^= UInt8.random(in: 1...255, using: &random)
          if Bool.random(using: &random) { bytes.removeLast(Int.random(in: 0..<bytes.count, using: &random)) }
        }
        let folder = "\(root)/\(n)/evil.x"
        let target = "\(root)/\(n)/target.db"
        try FileManager.default.createDirectory(atPath: "\(root)/\(n)", withIntermediateDirectories: true)
        if try take(segment, bytes, into: folder) {
          taken += 1
          try read(folder)
          if taken % 5 == 0 {
            applied += 1
            try apply(folder, target)
          }
        }
        try FileManager.default.removeItem(atPath: "\(root)/\(n)")
      }
      print(
        "\(count) mutated trails in \((Clock.monotonicMilliseconds - start) / 1000) s: \(taken) taken, \(applied) applied,",
        "resident \(before >> 20) MiB before, \(residentBytes >> 20) MiB after")
      #expect(taken > count / 10)
      // Other tests of the process share the budget.
      for _ in 0..<600 where BlockMemory.shared.used > 0 { Clock.sleep(milliseconds: 100) }
      #expect(BlockMemory.shared.used == 0)
    }
  }
}
