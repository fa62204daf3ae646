import Changes
import Foundation
import SystemKit
import TestServers
import TrailText
import Trails

/// Trails of a hostile peer, each valid by checksum and chain and hostile in its records. They are taken, read, shown
/// as SQL and applied, beside a canary. Trail `n` depends on `seed + n` alone, so a finding can be repeated by itself.
///
///     var trails = try MutatedTrails(seed: 1, server: nil)
///     try trails.run(600)
///     print(trails.report)
package struct MutatedTrails {
  package struct Report: CustomStringConvertible {
    package var trails = 0
    package var taken = 0
    package var sqlite = 0
    package var postgres = 0
    /// Applied to their end without an error.
    package var finished = 0
    package var milliseconds: Int64 = 0
    /// Memory before the first trail and at its most, and the most that one trail takes on the disk.
    package var residentBytes = 0
    package var peakBytes = 0
    package var diskBytes = 0
    /// Why applies stopped, and how often.
    package var errors: [String: Int] = [:]
    package var wrong: [String] = []

    package var description: String {
      "\(trails) trails in \(milliseconds / 1000) s: \(taken) taken, \(sqlite) applied to SQLite, "
        + "\(postgres) to PostgreSQL, \(finished) of them to their end; at most \(diskBytes >> 10) KiB of disk for one; "
        + "memory \(residentBytes >> 20) MiB before, \(peakBytes >> 20) MiB at most; \(wrong.count) findings"
    }
  }

  /// The disk space that the copy of one trail, its target and all files of apply beside it may take.
  package static let diskBudget = 16 << 20
  /// The memory that the process may take beyond that of its start: two blocks at once, and what a sanitizer keeps.
  package static let memoryBudget = 384 << 20
  private static let name = TrailName(origin: "evil", name: "x")

  package private(set) var report = Report()
  private let seed: UInt64
  private let isAlone: Bool
  private let root: String
  private let sqlite: SQLiteVictim
  private let captured: SQLiteVictim
  private let postgres: PostgresVictim?

  /// - Parameter server: trails are applied to PostgreSQL too if there is one.
  /// - Parameter isAlone: nothing else works in the process, so that its memory is bounded too.
  package init(seed: UInt64, server: PostgresServer?, isAlone: Bool = false) throws {
    (self.seed, self.isAlone) = (seed, isAlone)
    root = try makeTemporaryFolder("hostile")
    sqlite = try SQLiteVictim(root, goesBothWays: false)
    captured = try SQLiteVictim(root, goesBothWays: true)
    postgres = try server.map { [root] in try PostgresVictim($0, root) }
    report.residentBytes = residentMemory()
  }

  /// Attacks with so many trails; `note` is called after each thousand.
  package mutating func run(_ count: Int, note: (Report) -> Void = { _ in }) throws {
    let start = Clock.monotonicMilliseconds
    defer { try? FileManager.default.removeItem(atPath: root) }
    for n in 0..<count {
      try attack(UInt64(n))
      report.trails += 1
      guard n % 50 == 49 || n == count - 1 else { continue }
      report.milliseconds = Clock.monotonicMilliseconds - start
      report.peakBytes = max(report.peakBytes, residentMemory())
      if n % 1000 == 999 { note(report) }
    }
    if isAlone, report.peakBytes > report.residentBytes + Self.memoryBudget {
      report.wrong.append("CAIRN_SEED=\(seed): \(report.peakBytes >> 20) MiB of memory")
    }
  }

  /// Takes and reads every header with an extreme number. Returns how many segments were taken.
  package func headers() throws -> Int {
    let folder = root + "/headers/evil.x"
    return try (0..<HostileHeaders.count).count { n in
      defer { try? FileManager.default.removeItem(atPath: root + "/headers") }
      try FileManager.default.createDirectory(atPath: root + "/headers", withIntermediateDirectories: true)
      let segment = HostileHeaders.segment(Self.name, n)
      guard try take(segment, segment.bytes, into: folder) else { return false }
      try read(folder)
      return true
    }
  }

  private mutating func attack(_ n: UInt64) throws {
    var random = Seeded(seed &+ n)
    let segment = HostileTrails.segment(Self.name, &random)
    var bytes = segment.bytes
    if Int.random(in: 0..<5, using: &random) == 0 {
      // Checksums are wrong then, or the body ends anywhere.
      bytes[Int.random(in: 0..<bytes.count, using: &random)] ^= UInt8.random(in: 1...255, using: &random)
      if Bool.random(using: &random) { bytes.removeLast(Int.random(in: 0..<bytes.count, using: &random)) }
    }
    let folder = "\(root)/\(n)"
    let trail = folder + "/evil.x"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    guard try take(segment, bytes, into: trail) else { return }
    report.taken += 1
    try read(trail)
    // Both ways may apply a trail, so that what one engine takes the other sees too.
    let options = HostileOptions(&random).options
    let dice = Int.random(in: 0..<16, using: &random)
    if dice < 10 {
      let victim = dice % 3 == 0 ? captured : sqlite
      let (wrong, error) = try victim.attack(folder, trail, Self.name, options)
      report.sqlite += 1
      note(n, "SQLite", wrong, error)
    }
    if dice > 8, dice < 11, let postgres {
      let (wrong, error) = try postgres.attack(trail, Self.name, options)
      report.postgres += 1
      note(n, "PostgreSQL", wrong, error)
    }
    let held = allocatedBytes(below: folder)
    report.diskBytes = max(report.diskBytes, held)
    if held > Self.diskBudget { report.wrong.append("CAIRN_SEED=\(seed &+ n): \(held) bytes on the disk") }
  }

  private mutating func note(_ n: UInt64, _ engine: String, _ wrong: [String], _ error: String?) {
    if let error { report.errors[error, default: 0] += 1 } else { report.finished += 1 }
    // A failure of Cairn's own is a finding too, and so is a call that SQLite does not take.
    if error == "SQLite 21" { report.wrong.append("CAIRN_SEED=\(seed &+ n): \(engine): misuse of SQLite") }
    if error == ErrorCode.bug.rawValue { report.wrong.append("CAIRN_SEED=\(seed &+ n): \(engine): [bug]") }
    if !wrong.isEmpty { report.wrong.append("CAIRN_SEED=\(seed &+ n): \(engine): " + wrong.joined(separator: "; ")) }
  }

  /// Reads what was taken in every way that people and programs do.
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
}

/// Resident memory of this process, or of another one.
package func residentMemory(of process: Int32 = getpid()) -> Int {
  let words = (try? String(contentsOfFile: "/proc/\(process)/statm", encoding: .utf8))?.split(separator: " ") ?? []
  return (words.count > 1 ? Int(words[1]) ?? 0 : 0) * 4096
}

/// Returns the disk space that all files below a folder take.
package func allocatedBytes(below folder: String) -> Int {
  let names = (try? FileManager.default.subpathsOfDirectory(atPath: folder)) ?? []
  return names.reduce(0) { sum, name in
    var info = stat()
    return lstat("\(folder)/\(name)", &info) == 0 ? sum + Int(info.st_blocks) * 512 : sum
  }
}
