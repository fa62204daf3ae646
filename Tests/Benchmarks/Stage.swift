import Glibc
import SystemKit
import TestServers

/// The place of a run: a folder and two servers. All of it is removed when this process ends, however it ends.
final class Stage {
  enum Role: String { case source, target }

  let options: BenchOptions
  /// The folder, on the file system of the servers' data.
  let folder: String
  private let watchdog: Watchdog
  private var servers: [Role: PostgresServer] = [:]

  init(_ options: BenchOptions) throws {
    self.options = options
    var name = Array("/tmp/cairn-bench-XXXXXX".utf8CString)
    guard mkdtemp(&name) != nil else { throw TestFailure("cannot make a folder below /tmp: error \(errno)") }
    folder = String(decoding: name.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    watchdog = try Watchdog(of: folder, stop: ["/bin/true"])
  }

  deinit { watchdog.end() }

  /// Returns the server at one end, started at its first use. It is durable, and has no background work that would
  /// disturb one competitor but not the other.
  func server(_ role: Role) throws -> PostgresServer {
    if let server = servers[role] { return server }
    note("starting the \(role.rawValue)'s server")
    var settings = PostgresServer.Settings()
    settings.isDurable = true
    settings.more = [
      "shared_buffers": "256MB", "max_wal_size": "4GB", "checkpoint_timeout": "30min", "autovacuum": "off",
    ]
    let server = try PostgresServer(settings)
    servers[role] = server
    return server
  }

  /// The version of the servers; nil if no server was needed.
  var postgresVersion: String? {
    get throws { try servers.values.first?.psql("SHOW server_version") }
  }

  func path(_ name: String) -> String { folder + "/" + name }

  /// Returns an empty folder of this name, in place of any earlier one.
  func freshFolder(_ name: String) throws -> String {
    let path = path(name)
    try remove(path)
    try Folder.create(path)
    return path
  }

  private func remove(_ path: String) throws {
    if Folder.isFolder(path) { for name in try Folder.names(path) { try remove(path + "/" + name) } }
    if Folder.exists(path) { try Folder.remove(path) }
  }

  /// Writes pending data of earlier steps to disk, so that they do not slow down the next measurement.
  func settle() { sync() }

  /// Prints a line of progress.
  func note(_ line: String) { CairnBench.write("cairn-bench: \(line)", to: 2) }
}
