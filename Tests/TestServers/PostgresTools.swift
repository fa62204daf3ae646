import Foundation

/// The newest PostgreSQL programs of this machine, and the user that a server of them runs as.
struct PostgresTools: Sendable {
  /// The folder of the programs.
  let programs: String
  /// Whom the server runs as; nil: as this process does.
  let user: User?

  struct User: Sendable {
    let id: uid_t
    let group: gid_t
  }

  /// Looked for once: the C library returns users in one buffer for all threads.
  private static let found = Result { try look() }
  static func find() throws -> PostgresTools { try found.get() }

  private static func look() throws -> PostgresTools {
    let root = "/usr/lib/postgresql"
    let versions = (try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []
    let found = versions.compactMap(Int.init).sorted().reversed().map { "\(root)/\($0)/bin" }
      .first { folder in ["initdb", "pg_ctl", "postgres"].allSatisfy { access("\(folder)/\($0)", X_OK) == 0 } }
    guard let found else { throw TestFailure("there is none in \(root); 'make setup' installs it") }
    guard geteuid() == 0 else { return PostgresTools(programs: found, user: nil) }
    let users = (["postgres", "nobody"] as [String]).lazy.compactMap { getpwnam($0)?.pointee }
    guard let entry = users.first else {
      throw TestFailure("it refuses to run as root, and there is neither a user postgres nor nobody")
    }
    return PostgresTools(programs: found, user: User(id: entry.pw_uid, group: entry.pw_gid))
  }

  /// Makes a file or folder the server's own.
  func give(_ path: String) throws {
    guard let user else { return }
    guard chown(path, user.id, user.group) == 0 else {
      throw TestFailure("cannot give \(path) to user \(user.id): error \(errno)")
    }
  }

  /// The words that run a program as the server's user.
  func serverCommand(_ program: String, _ arguments: [String]) -> [String] {
    let words = ["\(programs)/\(program)"] + arguments
    guard let user else { return words }
    return ["/usr/bin/setpriv", "--reuid=\(user.id)", "--regid=\(user.group)", "--clear-groups"] + words
  }

  func runAsServer(_ program: String, _ arguments: [String], in folder: String, log: String? = nil) throws {
    let words = serverCommand(program, arguments)
    do {
      try Self.run(words[0], Array(words.dropFirst()), in: folder)
    } catch {
      let said = log.flatMap { FileManager.default.contents(atPath: $0) }.map { String(decoding: $0, as: UTF8.self) }
      throw TestFailure("\(error)\(said.map { ": " + String($0.suffix(2000)) } ?? "")")
    }
  }

  /// Runs a program as this process's user; returns its output without the last line break.
  @discardableResult func run(_ program: String, _ arguments: [String], in folder: String) throws -> String {
    try Self.run("\(programs)/\(program)", arguments, in: folder)
  }

  @discardableResult private static func run(
    _ program: String, _ arguments: [String], in folder: String
  ) throws -> String {
    let base = NSTemporaryDirectory() + "/cairn-run-" + UUID().uuidString
    defer { for suffix in [".out", ".err"] { unlink(base + suffix) } }
    // The operator's settings for servers, and for languages, are not meant for these.
    var environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("PG") && !$0.key.hasPrefix("LC_") }
    environment["LC_ALL"] = "C.UTF-8"
    environment["PGCLIENTENCODING"] = "UTF8"
    let child = try Child(
      program, arguments, folder: folder, environment: environment, output: base + ".out", errors: base + ".err")
    child.wait(seconds: 300)
    func text(_ suffix: String) -> String {
      String(decoding: FileManager.default.contents(atPath: base + suffix) ?? Data(), as: UTF8.self)
    }
    guard child.terminationStatus == 0 else {
      let name = program.split(separator: "/").last.map(String.init) ?? program
      let shown = name == "setpriv" ? arguments.first { $0.hasPrefix("/") } ?? name : name
      throw TestFailure("\(shown) ended with \(child.terminationStatus): \(text(".err"))\(text(".out").suffix(500))")
    }
    let output = text(".out")
    return output.hasSuffix("\n") ? String(output.dropLast()) : output
  }
}
