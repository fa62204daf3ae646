import Changes
import Glibc
import PostgresKit
import SystemKit

/// The address of a database: `sqlite:relative.db`, `sqlite:///absolute.db`, or a libpq URI.
///
///     try DatabaseURL("sqlite:///srv/shop.db")   // .sqlite(path: "/srv/shop.db")
///     try DatabaseURL("postgresql://db.example/shop").engine   // .postgres
package enum DatabaseURL: Equatable, Sendable {
  /// An SQLite file, by its absolute path.
  case sqlite(path: String)
  case postgres(uri: String)

  package static func == (a: DatabaseURL, b: DatabaseURL) -> Bool {
    switch (a, b) {
    case (.sqlite(let a), .sqlite(let b)): a == b
    case (.postgres(let a), .postgres(let b)): a == b
    default: false
    }
  }

  /// Parses a URL.
  /// - Throws: `bad-url`, with the valid forms.
  package init(_ text: String) throws {
    if text.hasPrefix("postgresql://") || text.hasPrefix("postgres://") {
      if let problem = PostgresConnection.problem(with: text) { throw Self.bad(text, problem) }
      self = .postgres(uri: text)
      return
    }
    guard text.hasPrefix("sqlite:") else {
      throw Self.bad(
        text, text.contains(":") ? "its scheme is unknown" : "it has no scheme, such as sqlite: or postgresql:")
    }
    var path = String(text.dropFirst("sqlite:".count))
    if path.hasPrefix("//") {
      guard path.hasPrefix("///") else { throw Self.bad(text, "a host has no meaning for a file") }
      path = String(path.dropFirst(2))
    }
    guard !path.isEmpty, !path.hasSuffix("/") else { throw Self.bad(text, "the path of the file is missing") }
    // One of them may be a password, and the path is shown everywhere.
    guard !URLPassword.hasOptions(path: path) else { throw Self.bad(text, "a file has no options") }
    self = .sqlite(path: path.hasPrefix("/") ? path : Self.workingFolder + "/" + path)
  }

  private static func bad(_ text: String, _ why: String) -> CairnError {
    CairnError(
      .badURL, "'\(URLPassword.hidden(in: text))' is not a database: \(why)",
      hint: "write sqlite:relative.db, sqlite:///absolute.db or postgresql://user@host/db", remedy: .badInput)
  }

  private static var workingFolder: String {
    guard let buffer = getcwd(nil, 0) else { return "." }
    defer { free(buffer) }
    return String(cString: buffer)
  }

  package var engine: Engine {
    switch self {
    case .sqlite: .sqlite
    case .postgres: .postgres
    }
  }

  /// The URL in canonical form: `sqlite:./a.db` and `sqlite:a.db` become equal. Symbolic links in the folder's path are
  /// resolved. A link in place of the file is kept, and ``Database`` refuses to open it.
  package var canonical: DatabaseURL {
    switch self {
    case .sqlite(let path): .sqlite(path: FileIdentity.canonicalFolder(of: path))
    case .postgres: self
    }
  }

  /// The URL with all symbolic links resolved, also in place of the file. Use this only for a path that the calling
  /// program has chosen.
  package var resolved: DatabaseURL {
    switch self {
    case .sqlite(let path): .sqlite(path: FileIdentity.canonical(path))
    case .postgres: self
    }
  }

  /// The name of the database in messages and state folders: a path, or server, user and database, without password.
  package var place: String {
    switch self {
    case .sqlite(let path): path
    case .postgres(let uri): PostgresConnection.place(of: uri)
    }
  }

  /// The URL as an operator can type it, without a password.
  package var shown: String {
    switch self {
    case .sqlite(let path): "sqlite:\(path)"
    case .postgres(let uri): URLPassword.hidden(in: uri)
    }
  }

  /// The warning that the connection does not verify the server's identity; nil if the connection verifies it, or is
  /// local.
  package var trustNotice: String? {
    guard case .postgres(let uri) = self else { return nil }
    return PostgresConnection.trustNotice(uri)
  }

  /// A short name of the database that is valid in a trail's name.
  package var stem: String { StateFolder.sanitized(Folder.lastName(of: place)) }

  /// Returns the path of an SQLite file. Throws an error for PostgreSQL.
  /// - Parameter use: The start of the error's message, before "is for SQLite files only".
  package func sqlitePath(for use: String) throws -> String {
    switch self {
    case .sqlite(let path): return path
    case .postgres:
      throw CairnError(
        .unsupported, "\(use) is for SQLite files only",
        hint: "PostgreSQL needs neither: capture reads its log, and blocks no schema change", remedy: .badInput)
    }
  }
}
