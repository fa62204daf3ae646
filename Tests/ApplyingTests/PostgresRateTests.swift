import Applying
import Changes
import Foundation
import TestServers
import Testing

/// How fast a backlog is applied, and how much memory that takes. Run by hand: `CAIRN_RATE=500000 swift test -c release
/// --filter PostgresRateTests`.
@Suite(
  .enabled(
    if: ProcessInfo.processInfo.environment["CAIRN_RATE"] != nil && PostgresServer.isAvailable, "CAIRN_RATE is not set"),
  .serialized)
struct PostgresRateTests {
  private let count = Int(ProcessInfo.processInfo.environment["CAIRN_RATE"] ?? "") ?? 100_000
  private static let text = Value.text(String(repeating: "x", count: 100))

  private func row(_ n: Int) -> [Value] {
    [.integer(Int64(n)), .integer(Int64(n % 1000)), .real(Double(n) / 3), Self.text, "2024-05-31 09:30:00"]
  }

  private func measure(_ what: String, _ target: PostgresTarget) throws {
    let began = Date()
    try target.replay()
    let seconds = Date().timeIntervalSince(began)
    print("\(what): \(Int(Double(count) / seconds)) rows/s, peak resident \(Self.peakMebibytes) MiB")
  }

  /// The peak memory of the whole process, which also writes the trail.
  private static var peakMebibytes: Int {
    let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
    let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") } ?? ""
    return (Int(line.filter(\.isNumber)) ?? 0) / 1024
  }

  @Test(arguments: [1, 1_000_000]) func `a backlog`(rowsPerTransaction: Int) throws {
    let target = try PostgresTarget()
    let trail = target.trail
    let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER, r REAL, s TEXT, d DATETIME)"
    try target.begin(sql, "t", [])
    func fill(_ body: (Int) throws -> Void) throws {
      for start in stride(from: 0, to: count, by: rowsPerTransaction) {
        try trail.transaction(isSynced: start + rowsPerTransaction >= count) {
          for n in start..<min(count, start + rowsPerTransaction) { try body(n) }
        }
      }
    }
    let name = rowsPerTransaction == 1 ? "a row each" : "one transaction"
    try fill { try trail.insert("t", row($0)) }
    try measure("inserts, \(name)", target)
    try fill { n in try trail.update("t", row(n), [nil, .integer(-1), nil, nil, nil]) }
    try measure("updates, \(name)", target)
    try fill { n in
      var old = row(n)
      old[1] = -1
      try trail.delete("t", old)
    }
    try measure("deletes, \(name)", target)
    #expect(try target.psql("SELECT count(*) FROM t") == "0")
  }

  @Test func `a copy`() throws {
    let target = try PostgresTarget()
    let trail = target.trail
    try trail.shape("CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER, r REAL, s TEXT, d DATETIME)")
    try trail.transaction {
      try trail.create("t")
      try trail.refresh("t", .start(.firstCopy, .byKey, estimatedRows: UInt64(count)))
    }
    for start in stride(from: 0, to: count, by: 2000) {
      let end = min(count, start + 2000)
      try trail.transaction(isSynced: end == count) {
        let from: [Value?]? = start == 0 ? nil : [.integer(Int64(start - 1)), nil, nil, nil, nil]
        try trail.refresh("t", .chunk(.keys(after: from, through: [.integer(Int64(end - 1)), nil, nil, nil, nil])))
        for n in start..<end { try trail.row("t", row(n)) }
      }
    }
    try trail.transaction { try trail.refresh("t", .end(rows: UInt64(count))) }
    try measure("refresh", target)
    #expect(try target.psql("SELECT count(*) FROM t") == "\(count)")
  }
}
