import Applying
import CSQLite
import CairnCapture
import Capturing
import Changes
import SQLiteKit
import SystemKit
import TestServers
import Trails

/// A database that a program has through the embedded API, the trail that a capture makes of it, and a target.
final class Till {
  let folder: TempFolder
  let shop: CapturedDatabase
  var options = SQLiteCapture.Options()
  private var capture: SQLiteCapture?
  private var writer: TrailWriter?
  private let name = TrailName(origin: "till-7", name: "pos")

  init(_ setup: String..., at folder: TempFolder? = nil, options: CapturedDatabase.Options = .init()) throws {
    self.folder = try folder ?? TempFolder()
    let folder = self.folder
    shop = try CapturedDatabase(path: folder("shop.db"), node: "till-7", options: options)
    self.options.place = folder("state")
    for statement in setup { try shop.execute(statement) }
  }

  /// Takes what was committed into the trail.
  func take() throws {
    if capture == nil {
      let writer = try TrailWriter.open(folder: folder("trail"), name: name, now: Clock.system.microseconds)
      capture = try SQLiteCapture(path: folder("shop.db"), trail: writer, options: options)
      self.writer = writer
    }
    try capture?.run(stop: StopSignal(), untilCaughtUp: true)
  }

  /// As the end of the process does.
  func endCapture() {
    capture = nil
    try? writer?.close()
    writer = nil
  }

  func replay() throws {
    let apply = try SQLiteApply(path: folder("copy.db"), trail: folder("trail"), name: name, options: .init())
    let drain = StopSignal()
    drain.set()
    try apply.run(stop: StopSignal(), drain: drain)
  }

  /// Returns the new content of the trail since the last call, a line for each record except progress and schemas.
  func told() throws -> [String] {
    let reader = try TrailReader.open(folder: folder("trail"), at: nil)
    var lines: [String] = []
    while let record = try reader.next() {
      if let line = try Self.line(record, reader) { lines.append(line) }
    }
    defer { toldCount = lines.count }
    return Array(lines.dropFirst(toldCount))
  }
  private var toldCount = 0

  /// Returns the records of the transactions that `body` commits.
  func told(of body: (CapturedDatabase) throws -> Void) throws -> [String] {
    try take()
    _ = try told()
    try body(shop)
    try take()
    return try told()
  }

  private static func line(_ record: Record, _ reader: TrailReader) throws -> String? {
    switch record {
    case .begin(let header): return header.flags.contains(.group) ? "group" : "begin"
    case .commit: return "commit"
    case .statement(let view):
      let statement = try view.executed()
      let values = statement.parameters.map { "\(SQLValue($0))" }.joined(separator: ",")
      return "\(statement.text)" + (values.isEmpty ? "" : " [\(values)]") + " \(statement.rowsAffected)"
        + (statement.now == nil ? "" : " at now") + (statement.flags.contains(.nowUnknown) ? " unknown" : "")
        + (statement.flags.contains(.isPartial) ? " partial" : "")
    case .statementEnd(let end): return "end \(end.changes) \(end.digest.written)+\(end.digest.gone)"
    case .change(let change): return "\(change.operation) \(reader.schema(change.schemaID)?.name ?? "?")"
    case .ddl(let ddl):
      return "\(ddl.action) \(reader.schema(ddl.after == 0 ? ddl.before : ddl.after)?.name ?? "?")"
        + (ddl.isRefreshed ? " copied" : "")
    case .refresh(let refresh):
      guard case .start = refresh.event else { return nil }
      return "copy \(reader.schema(refresh.schemaID)?.name ?? "?")"
    case .refreshRow: return "row"
    default: return nil
    }
  }

  /// The statements that the trail holds, with the digest after each, and the changes between.
  func statements() throws -> [(statement: ExecutedStatement, end: StatementEnd)] {
    let reader = try TrailReader.open(folder: folder("trail"), at: nil)
    var found: [(ExecutedStatement, StatementEnd)] = []
    var open: ExecutedStatement?
    while let record = try reader.next() {
      if case .statement(let statement) = record { open = try statement.executed() }
      if case .statementEnd(let end) = record, let statement = open {
        found.append((statement, end))
        open = nil
      }
    }
    return found
  }

  /// All rows of a table at both ends.
  func rows(_ table: String) throws -> (source: [[Value]], target: [[Value]]) {
    let sql = "SELECT * FROM \(table) ORDER BY 1, 2"
    return (
      try Database(path: folder("shop.db")).query(sql), try Database(path: folder("copy.db")).query(sql)
    )
  }
}

extension SQLValue {
  init(_ value: Value) {
    switch value {
    case .null: self = .null
    case .integer(let number): self = .integer(number)
    case .real(let number): self = .real(number)
    case .text(let bytes), .exact(let bytes): self = .text(String(decoding: bytes, as: UTF8.self))
    case .blob(let bytes): self = .blob(bytes)
    }
  }
}
