import Applying
import Changes
import Foundation
import Mapping
import PostgresKit
import SystemKit
import TestServers
import Trails

/// A database of its own, and a handmade trail that is applied to it.
final class PostgresTarget {
  let trail: Handmade
  let server: PostgresServer
  let name: String
  let url: String
  var options = PostgresApply.Options()
  let progress = ApplyProgress()
  private let folder: TempFolder

  init(_ server: PostgresServer? = nil, trail: TrailName = Handmade.name) throws {
    self.server = try server ?? PostgresServer.shared
    name = "apply_" + UUID().uuidString.prefix(8).lowercased()
    url = try self.server.createDatabase(name)
    folder = try TempFolder()
    self.trail = try Handmade(folder, name: trail)
  }

  deinit { try? server.dropDatabase(name) }

  @discardableResult func psql(_ sql: String) throws -> String { try server.psql(sql, name) }

  /// Makes the table in a database of its own, whose tables give the trail its schemas; the target stays empty.
  func shape(postgres sql: String) throws {
    let source = name + "_source"
    if try server.psql("SELECT 1 FROM pg_database WHERE datname = '\(source)'").isEmpty {
      try server.createDatabase(source)
    }
    defer { try? server.dropDatabase(source) }
    try server.psql(sql, source)
    for table in try PostgresConnection(server.url(source)).userTables() { trail.shape(table.schema) }
  }

  /// Applies another trail to the same database.
  func replay(_ other: Handmade, _ options: PostgresApply.Options) throws {
    try PostgresApply(uri: url, trail: other.trail, name: other.name, options: options, progress: progress).drain()
  }

  func open(user: String = "postgres") throws -> PostgresApply {
    try PostgresApply(
      uri: server.url(name, user: user), trail: trail.trail, name: trail.name, options: options, progress: progress)
  }

  /// Applies everything, as a new run does.
  func replay() throws { try open().drain() }

  /// A table made and copied in the trail, and applied.
  func begin(_ sql: String, _ table: String, _ rows: [[Value]], _ method: Refresh.Method = .byKey) throws {
    try trail.shape(sql)
    try trail.transaction {
      try trail.create(table)
      try trail.copy(table, rows, method)
    }
    try replay()
  }

  func begin(postgres sql: String, _ table: String, _ rows: [[Value]], _ method: Refresh.Method = .byKey) throws {
    try shape(postgres: sql)
    try trail.transaction {
      try trail.create(table)
      try trail.copy(table, rows, method)
    }
    try replay()
  }
}

extension PostgresTarget {
  /// Applies as a role while `body` runs, and then to the end of the trail.
  func applying(as role: String, _ body: () throws -> Void) throws {
    let (stop, drain) = (StopSignal(), StopSignal())
    let (url, options, progress) = (server.url(name, user: role), options, progress)
    let (folder, trail) = (trail.trail, trail.name)
    let worker = try WorkerThread {
      let apply = try? PostgresApply(uri: url, trail: folder, name: trail, options: options, progress: progress)
      try? apply?.run(stop: stop, drain: drain)
    }
    do { try body() } catch {
      stop.set()
      _ = worker.join()
      throw error
    }
    drain.set()
    _ = worker.join()
  }
}

extension PostgresApply {
  /// Applies everything that is in the trail.
  func drain() throws {
    let drain = StopSignal()
    drain.set()
    try run(stop: StopSignal(), drain: drain)
  }
}

extension Value {
  /// As a trail of PostgreSQL has it.
  static func exact(_ text: String) -> Value { .exact(Array(text.utf8)) }
}
