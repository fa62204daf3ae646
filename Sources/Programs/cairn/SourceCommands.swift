import Capturing
import Changes
import ControlAPI
import Endpoints
import SQLiteKit

/// `cairn unhook`: pauses the capture of a table for a schema change that Cairn's triggers would prevent.
struct UnhookCommand: Command {
  static let name = "unhook"
  static let summary = "stop capture of a table for a schema change such as DROP COLUMN"
  static let operands = "URL|DATABASE [TABLE]"
  static let options = DaemonPeer.options
  static let details = """
    DATABASE may be a database of the daemon's conf; then the daemon does it. Without TABLE, capture of all tables
    stops. 'cairn rehook' copies the table again to find the changes made meanwhile; replication may continue.

    example: cairn unhook sqlite:shop.db item
             sqlite3 shop.db 'ALTER TABLE item DROP COLUMN note'
             cairn rehook sqlite:shop.db item
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    try Hooking.run(arguments, done: "unhooked") { journal, table in try journal.unhook(table) }
  }
}

/// `cairn rehook`: captures a table again after `cairn unhook`. A refresh brings the changes that capture missed.
struct RehookCommand: Command {
  static let name = "rehook"
  static let summary = "start capture again after 'unhook', and copy the missed changes"
  static let operands = "URL|DATABASE [TABLE]"
  static let options = DaemonPeer.options
  static let details = """
    DATABASE may be a database of the daemon's conf; then the daemon does it. Without TABLE, capture of all unhooked
    tables starts. The replication copies them when it runs.

    example: cairn rehook sqlite:shop.db item
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    try Hooking.run(arguments, done: "rehooked") { journal, table in
      try journal.rehook(table, patterns: try journal.patterns())
    }
  }
}

private enum Hooking {
  static func run(
    _ arguments: Arguments, done: String, _ body: (Journal, String?) throws -> [String]
  ) throws -> Int32 {
    let operands = try arguments.operands(1...2)
    if !operands[0].contains(":") { return try ask(arguments, operands, done: done) }
    let path = try DatabaseURL(operands[0]).sqlitePath(for: "cairn " + (done == "unhooked" ? "unhook" : "rehook"))
    let journal = Journal(try Ends.open(path, mode: .readWrite))
    guard try journal.owner() != nil else {
      throw CairnError(
        .tableMissing, "\(path) is not captured", hint: "start 'cairn replicate' on it first", remedy: .badInput)
    }
    let tables = try body(journal, operands.count == 2 ? operands[1] : nil)
    tell(arguments, tables, done)
    return 0
  }

  /// Sends the command to the daemon, and prints the tables that it changed. Returns the exit status.
  private static func ask(_ arguments: Arguments, _ operands: [String], done: String) throws -> Int32 {
    let command: ControlRequest.Command = done == "unhooked" ? .unhook : .rehook
    let answer = try DaemonPeer.address(arguments)
      .ask(ControlRequest(command, operands[0], tables: Array(operands.dropFirst())))
    let tables = answer.list("tables").compactMap { if case .text(let text) = $0 { text } else { nil } }
    tell(arguments, tables, done)
    return 0
  }

  private static func tell(_ arguments: Arguments, _ tables: [String], _ done: String) {
    if arguments.has("--json") {
      Terminal.print(JSONObject([("event", .text(done)), ("tables", .list(tables.map { .text($0) }))]).line)
    } else {
      Terminal.print(tables.isEmpty ? "no table was \(done)" : "\(done) \(tables.joined(separator: ", "))")
    }
  }
}
