import Changes
import Foundation
import PostgresKit
import SystemKit
import TestServers
import Testing
import Trails

@testable import Capturing

/// A database of the shared server, captured into a trail in a temporary folder.
final class PostgresOrigin {
  let folder: TempFolder
  let server: PostgresServer
  let database: String
  let uri: String
  let name = TrailName(origin: "local", name: "origin")
  var copiesRows = true
  var goesBothWays = false
  var trailOptions = TrailOptions()
  /// The role of capture; nil: the superuser.
  var role: String?
  private static let counter = Counter()
  /// Not the shared one: a slot is made only when no transaction is open in any database of the server.
  private static let ours = Result {
    var settings = PostgresServer.Settings()
    settings.more["max_prepared_transactions"] = "5"
    return try PostgresServer(settings)
  }

  init(_ schema: String = "", server given: PostgresServer? = nil) throws {
    server = try given ?? Self.ours.get()
    folder = try TempFolder()
    database = "capture_\(Self.counter.next())"
    uri = try self.server.createDatabase(database)
    if !schema.isEmpty { try run(schema) }
  }

  deinit { try? server.dropDatabase(database) }

  var trailFolder: String { folder("state/local.origin") }

  @discardableResult func run(_ sql: String) throws -> String { try server.psql(sql, database) }

  /// Makes the key of messages, as an apply does.
  func makeKey() throws { try MessageKey.ensure(PostgresConnection(uri)) }

  /// The statement that emits a message as Cairn does; `content` is an expression of type `bytea`.
  static func message(_ prefix: String, _ content: String) -> String {
    "SELECT \(MessageKey.call(prefix, content)) FROM cairn.key AS k WHERE k.id = 1;"
  }

  /// Takes everything that is committed now.
  func take(
    _ tables: TablePatterns = .init(), copiesAgain: Bool = false, said: @escaping @Sendable (String) -> Void = { _ in }
  ) throws {
    try with(tables, copiesAgain: copiesAgain, said: said) { try $0.run(stop: StopSignal(), untilCaughtUp: true) }
  }

  /// Opens capture, and closes the trail whatever happens.
  func with(
    _ tables: TablePatterns = .init(), copiesAgain: Bool = false, said: @escaping @Sendable (String) -> Void = { _ in },
    _ body: (PostgresCapture) throws -> Void
  ) throws {
    let writer = try TrailWriter.open(folder: trailFolder, name: name, options: trailOptions, now: { 0 })
    do {
      var options = PostgresCapture.Options()
      options.tables = tables
      options.place = folder("state")
      options.copiesAgain = copiesAgain
      options.copiesRows = copiesRows
      options.goesBothWays = goesBothWays
      try body(
        try PostgresCapture(
          uri: role.map { server.url(database, user: $0) } ?? uri, trail: writer, options: options,
          progress: CaptureProgress(notice: { said($0.text) })))
    } catch {
      try? writer.close()
      throw error
    }
    try writer.close()
  }

  /// The code of the error with which `body` fails.
  func code(_ body: () throws -> Void) -> ErrorCode? {
    do { try body() } catch { return (error as? CairnError)?.code ?? (error as? PostgresError)?.asCairnError.code }
    return nil
  }

  /// Returns the content of the trail, a line a record, without progress and sequences; rows as `name=value`.
  func lines(from number: UInt64 = 0) throws -> [String] {
    let reader = try TrailReader.open(folder: trailFolder, at: nil)
    var lines: [String] = []
    var isShown = false
    while let record = try reader.next() {
      if case .begin(let header) = record { isShown = header.number > number }
      guard isShown, let line = try line(record, reader) else { continue }
      lines.append(line)
    }
    return lines
  }

  /// Returns all schema changes in the trail.
  func ddl() throws -> [DDL] {
    let reader = try TrailReader.open(folder: trailFolder, at: nil)
    var all: [DDL] = []
    while let record = try reader.next() { if case .ddl(let ddl) = record { all.append(ddl) } }
    return all
  }

  var lastNumber: UInt64 {
    get throws {
      let reader = try TrailReader.open(folder: trailFolder, at: nil)
      var last: UInt64 = 0
      while let record = try reader.next() { if case .commit(let number, _) = record { last = number } }
      return last
    }
  }

  private func line(_ record: Record, _ reader: TrailReader) throws -> String? {
    func schema(_ id: UInt64) throws -> TableSchema { try #require(reader.schema(id)) }
    func row(_ image: ImageView?, _ schema: TableSchema) throws -> String {
      guard let image else { return "" }
      let values = try image.values()
      return zip(schema.columns, values).compactMap { column, value in
        switch value {
        case nil: nil
        case .null?: "\(column.name)=NULL"
        case .exact(let bytes)?: "\(column.name)=\(String(decoding: bytes.prefix(40), as: UTF8.self))"
        case let other?: "\(column.name)=?\(other)"
        }
      }.joined(separator: " ")
    }
    switch record {
    case .change(let change):
      let table = try schema(change.schemaID)
      let before = try row(change.before, table)
      let after = try row(change.after, table)
      let parts = ["\(change.operation) \(table.name)", before, after].filter { !$0.isEmpty }
      return parts.joined(separator: change.operation == .update && !before.isEmpty ? " | " : " ")
    case .refreshRow(let id, let image): return try "row \(schema(id).name) " + row(image, schema(id))
    case .waitingRow(let waiting):
      return try "waiting \(schema(waiting.schemaID).name) " + row(waiting.image, schema(waiting.schemaID))
    case .refresh(let refresh):
      switch refresh.event {
      case .start(let reason, _, _): return try "start \(schema(refresh.schemaID).name) \(reason)"
      case .chunk: return try "chunk \(schema(refresh.schemaID).name)"
      case .end: return try "end \(schema(refresh.schemaID).name)"
      }
    case .ddl(let ddl):
      let before = ddl.before == 0 ? "" : " " + (try schema(ddl.before).name)
      let after = ddl.after == 0 ? "" : " " + (try schema(ddl.after).name)
      return "\(ddl.action)\(before)\(after)"
    case .sequence(let sequence): return "sequence \(sequence.name) \(sequence.last)"
    default: return nil
    }
  }
}

final class Counter: @unchecked Sendable {
  private let lock = NSLock()
  private var value = Int(getpid()) * 1000
  func next() -> Int {
    lock.lock()
    defer { lock.unlock() }
    value += 1
    return value
  }
}
