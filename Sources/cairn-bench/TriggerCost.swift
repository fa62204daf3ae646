import Capturing
import Changes
import Glibc
import SQLiteKit
import SystemKit
import Trails

/// W7: what it costs a program to be captured. 500,000 rows inserted, 100 a transaction, WAL, synchronous=NORMAL, with
/// and without the triggers in turn, in one run, so that the ratio holds when the machine's speed drifts.
struct TriggerCost {
  let folder: String
  let rows: Int
  let rounds: Int

  func run() throws -> String {
    var (plain, captured): ([Double], [Double]) = ([], [])
    for round in 0..<rounds {
      plain.append(try insert(into: "plain\(round).db", isCaptured: false))
      captured.append(try insert(into: "captured\(round).db", isCaptured: true))
    }
    let ratios = zip(captured, plain).map { $0 / $1 }.sorted()
    func show(_ numbers: [Double]) -> String {
      let sorted = numbers.sorted()
      return
        "{\"median\":\(Int(sorted[sorted.count / 2])),\"min\":\(Int(sorted[0])),\"max\":\(Int(sorted[sorted.count - 1]))}"
    }
    let median = Double(Int(ratios[ratios.count / 2] * 1000)) / 1000
    return """
      {"workload":"W7","pair":"sqlite","rows":\(rows),"plain_rows_per_second":\(show(plain)),\
      "captured_rows_per_second":\(show(captured)),"ratio":\(median),\
      "ratio_min":\(Double(Int(ratios[0] * 1000)) / 1000),"ratio_max":\(Double(Int(ratios[ratios.count - 1] * 1000)) / 1000),\
      "sqlite":"\(Database.libraryVersion)"}
      """
  }

  /// Rows per second.
  private func insert(into name: String, isCaptured: Bool) throws -> Double {
    let path = folder + "/" + name
    let database = try Database(path: path, mode: .create)
    try database.execute(
      """
      PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
      CREATE TABLE sale(id INTEGER PRIMARY KEY, till INTEGER, price REAL, item TEXT, sold_at TEXT)
      """)
    if isCaptured {
      let trail = try TrailWriter.open(
        folder: "\(path).trail", name: TrailName(origin: "bench", name: "w7"), now: Clock.system.microseconds)
      // Puts the triggers in; nobody takes from the journal meanwhile.
      _ = try SQLiteCapture(path: path, trail: trail, options: .init())
      try trail.close()
    }
    let statement = try database.prepare("INSERT INTO sale(till, price, item, sold_at) VALUES (?, ?, ?, ?)")
    let text = [UInt8](repeating: 0x78, count: 100)
    let begun = Clock.system.microseconds()
    for row in 0..<rows {
      if row % 100 == 0 { try database.execute("BEGIN") }
      try statement.bind(
        [.integer(Int64(row)), .real(Double(row) / 2), .text(text), .text("2026-01-01 00:00:00")])
      while try statement.step() {}
      if row % 100 == 99 { try database.execute("COMMIT") }
    }
    let seconds = Double(Clock.system.microseconds() - begun) / 1e6
    for suffix in ["", "-wal", "-shm"] { unlink(path + suffix) }
    return Double(rows) / seconds
  }
}

@main
enum Bench {
  /// `cairn-bench [ROWS [ROUNDS]]`: a JSON line per workload.
  static func main() throws {
    let words = CommandLine.arguments.dropFirst().compactMap { Int($0) }
    var template = Array("/tmp/cairn-bench.XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { exit(73) }
    let folder = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    print(try TriggerCost(folder: folder, rows: words.first ?? 500_000, rounds: words.dropFirst().first ?? 5).run())
    _ = try? Folder.remove(folder)
  }
}
