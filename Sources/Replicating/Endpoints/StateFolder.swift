import Applying
import Changes
import CodecKit
import Glibc
import Mapping
import SystemKit

/// The folder of one replication, with its trail, its lock and its settings.
///
///     let state = try StateFolder("/var/lib/shop", from: source.place, to: target.place)
package final class StateFolder {
  package let path: String
  private let lock: File

  /// Returns the default path of a replication's state folder, made from the names of both databases.
  package static func defaultPath(from: DatabaseURL, to: DatabaseURL) -> String {
    let digest = CRC32C.of(Array((from.place + "\n" + to.place).utf8))
    return "\(StateFolders.base())/\(from.stem)-to-\(to.stem)-\(UInt64(digest).hex(8))"
  }

  /// Returns the name of a file without extension. Characters that a trail's name may not have become `-`.
  package static func sanitized(_ file: String) -> String {
    let stem = file.lastIndex(of: ".").map { $0 > file.startIndex ? String(file[..<$0]) : file } ?? file
    let text = String(
      decoding: stem.utf8.prefix(60).map { TrailName.isValid(String(UnicodeScalar($0))) && $0 < 0x80 ? $0 : 0x2d },
      as: UTF8.self)
    return text.isEmpty ? "db" : text
  }

  /// Opens or creates the folder and locks it for this process.
  /// - Throws: `state-unwritable`, `disk-full`; `state-locked` if another Cairn process uses the folder;
  ///   `state-foreign` if the folder belongs to other databases.
  package init(_ path: String, from: String, to: String) throws {
    self.path = path
    do {
      try Folder.create(path)
      lock = try File(path + "/lock", .openOrCreate)
      guard try lock.tryLock() else {
        throw CairnError(
          .stateLocked, "another cairn is running on the state folder \(path)",
          hint: "stop it first, or name another folder with --state", remedy: .retry)
      }
      try Self.claim(path, "from \(from)\nto \(to)\n")
    } catch let error as FileError { throw Self.envelope(error, path) }
  }

  /// Checks that a folder belongs to the replication between two databases.
  package static func check(_ path: String, from: String, to: String) throws {
    do {
      guard Folder.exists(path + "/replication") else {
        throw CairnError(
          .trailMissing, "there is no replication state in \(path)",
          hint: "name the --state with which 'cairn replicate' runs, or leave --state out", remedy: .badInput)
      }
      let there = String(decoding: try contents(path + "/replication"), as: UTF8.self)
      guard there == "from \(from)\nto \(to)\n" else { throw foreign(path, there) }
    } catch let error as FileError { throw envelope(error, path) }
  }

  /// Returns the databases of the replication in a state folder; nil if there is no replication.
  package static func ends(of path: String) throws -> (from: String, to: String)? {
    guard let text = try kept("replication", path) else { return nil }
    let lines = text.split(at: "\n", omittingEmpty: false)
    guard lines.count == 3, lines[0].hasPrefix("from "), lines[1].hasPrefix("to ") else { return nil }
    return (String(lines[0].dropFirst(5)), String(lines[1].dropFirst(3)))
  }

  private static func foreign(_ path: String, _ there: String) -> CairnError {
    let ends = there.split(at: "\n").joined(separator: " ")
    return CairnError(
      .stateForeign, "the state folder \(path) belongs to the replication \(ends)",
      hint: "name another folder with --state: each pair of databases needs its own", remedy: .badInput)
  }

  private static func claim(_ path: String, _ text: String) throws {
    let name = path + "/replication"
    if Folder.exists(name) {
      let there = String(decoding: try Self.contents(name), as: UTF8.self)
      guard there == text || there.isEmpty else { throw foreign(path, there) }
      if !there.isEmpty { return }
    }
    let file = try File(name, .openOrCreate)
    let bytes = Array(text.utf8)
    try bytes.withUnsafeBytes { try file.write($0, at: 0) }
    try file.sync()
    try file.close()
    try Folder.sync(path)
  }

  /// The treatment of rows that the target held before the initial load; nil if the operator chose none.
  package var existing: ExistingRows? {
    get throws {
      try Self.kept("existing", path).flatMap { ExistingRows(rawValue: $0) }
    }
  }

  /// Stores the treatment of rows that the target held before the initial load.
  package func remember(_ existing: ExistingRows) throws { try keep(existing.rawValue, in: "existing") }

  /// Stores the tables and the name policy of this run, for other commands.
  package func remember(_ tables: TablePatterns, _ names: NamePolicy) throws {
    try keep(tables.text, in: "patterns")
    try keep(names.rawValue, in: "names")
  }

  package func rememberTwoWay() throws { try keep("two", in: "ways") }

  /// Throws an error if the replication is two-way. A one-way run would never purge the target's trail.
  package func checkOneWay() throws {
    guard try Self.isTwoWay(path) else { return }
    throw CairnError(
      .stateForeign, "the state folder \(path) belongs to a two-way replication",
      hint: "run with --two-way; or run 'cairn detach' on both databases and name another folder with --state",
      remedy: .badInput)
  }

  /// Returns whether the replication of a state folder is two-way.
  static func isTwoWay(_ path: String) throws -> Bool { try kept("ways", path) == "two" }

  /// Stores the path of the state folder that holds the trail: this folder, or another replication's folder.
  package func remember(home: String) throws {
    if home.hasSameBytes(as: path), try Self.kept("home", path) == nil { return }
    try keep(home, in: "home")
  }

  /// Returns the state folder with the trail that a replication reads. The folder may belong to another replication.
  package static func home(of path: String) throws -> String { try kept("home", path) ?? path }

  /// Returns the tables of a replication, by its state folder; nil if unknown.
  package static func tables(in path: String) throws -> TablePatterns? {
    try kept("patterns", path).map { TablePatterns(text: $0) }
  }

  /// Returns the name policy of a replication, by its state folder; nil if unknown.
  package static func names(in path: String) throws -> NamePolicy? {
    try kept("names", path).flatMap { NamePolicy(rawValue: $0) }
  }

  private static func kept(_ name: String, _ path: String) throws -> String? {
    guard Folder.exists("\(path)/\(name)") else { return nil }
    do { return String(decoding: try contents("\(path)/\(name)"), as: UTF8.self) } catch let error as FileError {
      throw envelope(error, path)
    }
  }

  private func keep(_ text: String, in file: String) throws {
    if try Self.kept(file, path) == text { return }
    do {
      try Array(text.utf8).withUnsafeBytes { try File.replace("\(path)/\(file)", with: $0) }
    } catch let error as FileError { throw Self.envelope(error, path) }
  }

  private static func contents(_ path: String) throws -> [UInt8] {
    Array(try File.text(path).utf8)
  }

  private static func envelope(_ error: FileError, _ path: String) -> CairnError {
    if error.code == ENOSPC || error.code == EDQUOT { return error.asCairnError(doing: "write the state") }
    return CairnError(
      .stateUnwritable, "the state folder \(path) cannot be used: \(error)",
      hint: "make it writable for this user, or name another folder with --state")
  }
}
