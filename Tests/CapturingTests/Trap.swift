import Capturing
import Changes
import Foundation
import SQLiteKit
import TestServers
import Testing

/// An act of programs that triggers see wrongly, or not at all, unless capture takes care.
struct Trap: Sendable, CustomTestStringConvertible {
  enum Step: Sendable, ExpressibleByStringInterpolation {
    case sql(String)
    /// On a second connection of the program.
    case other(String)
    case unhook(String)
    case rehook(String)
    /// Capture and apply catch up here, in every mode.
    case sync
    init(stringLiteral value: String) { self = .sql(value) }
  }

  let name: String
  /// For every connection of the program.
  var pragmas = ""
  var journalMode = "WAL"
  /// Before Cairn comes. With a PRAGMA first, if one must come before the first table.
  let before: String
  let steps: [Step]
  /// Tables whose rows the target is not to have.
  var isSkipped: [String] = []
  /// Part of a notice that must be given.
  var notice: String?

  init(
    _ name: String, pragmas: String = "", journalMode: String = "WAL", _ before: String, _ steps: [Step],
    skips: [String] = [], notice: String? = nil
  ) {
    (self.name, self.pragmas, self.journalMode, self.before) = (name, pragmas, journalMode, before)
    (self.steps, self.isSkipped, self.notice) = (steps, skips, notice)
  }

  var testDescription: String { name }

  static var all: [Trap] {
    replacing + unique + ignoring + cascades + mistyped + triggers + keys + values + shapes + schemaChanges + modes
  }
}

/// When capture and apply look at what the program does.
enum Pace: String, CaseIterable, Sendable, CustomTestStringConvertible {
  case afterEverything = "looked at once, after everything"
  case afterEachStep = "looked at after each step"
  case restarted = "capture and apply started anew after each step"
  var testDescription: String { rawValue }
}

/// The program: connections, and the answers that it got from SQLite.
private final class Program {
  let first: Database
  let second: Database
  private(set) var heard: [String] = []
  private var hasVacuumed = false

  init(_ path: String, _ trap: Trap) throws {
    first = try Database(ofProgram: path)
    second = try Database(ofProgram: path)
    try first.execute("PRAGMA page_size = 4096")
    if trap.before.hasPrefix("PRAGMA encoding") {
      try first.executeScript(String(trap.before.prefix { $0 != ";" }) + "; PRAGMA journal_mode = \(trap.journalMode)")
    } else {
      try first.executeScript("PRAGMA journal_mode = \(trap.journalMode)")
    }
    for database in [first, second] { try database.executeScript("PRAGMA synchronous = NORMAL; " + trap.pragmas) }
    try first.executeScript(trap.before)
  }

  func run(_ sql: String, on database: Database) {
    var outcome = "ok"
    do { try database.executeScript(sql) } catch { outcome = (error as? SQLiteError)?.message ?? "\(error)" }
    // VACUUM leaves the rowid of the last sqlite_master row that it copied, which counts our tables.
    if sql.contains("VACUUM") { hasVacuumed = true }
    let seen = try? database.query("SELECT changes()\(hasVacuumed ? "" : ", last_insert_rowid()")")
    heard.append("\(sql): \(outcome), \((seen?.first ?? []).map(Contents.show))")
  }
}

@Suite struct TrapTests {
  /// Invariants 1, 4, 6 and 10: the target is equal, and the program sees nothing of it all.
  @Test(arguments: Trap.all, Pace.allCases)
  func `a trap leaves source, target and program as they should be`(trap: Trap, pace: Pace) throws {
    let folder = try TempFolder()
    let replica = Replica(folder)
    let alone = try Program(folder("alone.db"), trap)
    for step in trap.steps {
      switch step {
      case .sql(let sql): alone.run(sql, on: alone.first)
      case .other(let sql): alone.run(sql, on: alone.second)
      case .unhook, .rehook, .sync: break
      }
    }

    let program = try Program(replica.source, trap)
    try replica.takeAndReplay()
    for step in trap.steps {
      if pace == .restarted { replica.close() }
      switch step {
      case .sql(let sql): program.run(sql, on: program.first)
      case .other(let sql): program.run(sql, on: program.second)
      case .unhook(let table): #expect(try journal(replica).unhook(table).count == 1)
      case .rehook(let table): #expect(try journal(replica).rehook(table, patterns: .init()).count == 1)
      case .sync: try replica.takeAndReplay()
      }
      // Opening a capture needs the write lock for a moment.
      let isWaiting = pace == .restarted && program.first.isInTransaction
      if pace != .afterEverything, !isWaiting { try replica.takeAndReplay() }
    }
    try replica.takeAndReplay()

    #expect(program.heard == alone.heard, "the program must be told what it would be told without Cairn")
    let wanted = try Contents(folder("alone.db"))
    let source = try Contents(replica.source)
    #expect(source.differences(from: wanted).isEmpty, "\(source.differences(from: wanted))")
    var expected = wanted
    for table in trap.isSkipped { (expected.rows[table], expected.shapes[table]) = (nil, nil) }
    let target = try Contents(replica.target)
    #expect(expected.differences(from: target).isEmpty, "\(expected.differences(from: target))")
    if let notice = trap.notice {
      #expect(replica.notices.contains { $0.contains(notice) }, "notices: \(replica.notices)")
    }

    replica.close()
    #expect(try journal(replica).detach())
    #expect(try schemaText(replica.source) == schemaText(folder("alone.db")))
  }

  private func journal(_ replica: Replica) throws -> Journal { Journal(try Database(path: replica.source)) }
}
