import Applying
import Changes
import Synchronization
import SystemKit

/// The file with the tables that an apply has skipped because its option `tables` does not list them. A table that the
/// option lists later needs a refresh.
///
/// Each line of the file is a table. An earlier version wrote one line with all tables.
///
/// ```
/// let note = try LeftOutNote(state: "/var/lib/cairn", apply: "pos").open()
/// try note.add(LeftOutTable(source: "salaries", namespace: "hr", name: "salaries"))
/// ```
struct LeftOutNote: Sendable {
  static let tablesMax = 10_000
  /// The maximum size of the file, in bytes.
  static let bytesMax = 4 << 20
  /// The maximum size of a file that is read: an earlier version limited only the names.
  private static let readMax = 64 << 20
  /// A table with a longer name is not in the file. If `tables` includes it later, it needs 'cairn copy'.
  static let nameBytesMax = 1024

  fileprivate let path: String

  init(state: String, apply: String) { path = "\(state)/applies/\(apply).left-out" }

  static func title(_ table: LeftOutTable) -> String {
    table.namespace.isEmpty || table.namespace == "public" ? table.name : "\(table.namespace).\(table.name)"
  }

  /// Returns the tables in the file; empty if there is no file.
  ///
  /// - Throws: `state-foreign` if the file does not have the format of this version of Cairn, or is too large.
  func read() throws -> [LeftOutTable] {
    guard Folder.exists(path) else { return [] }
    let text: String
    do throws(FileError) { text = try File.text(path, bytesMax: Self.readMax) } catch {
      throw error.isTooLarge ? foreign : error.asCairnError(doing: "read which tables an apply leaves out")
    }
    var lines = text.split(at: "\n")
    // After a crash, the last line may be incomplete. Apply skips its table again, and adds the line again.
    if text.utf8.last != 0x0a { lines = lines.dropLast() }
    return try lines.flatMap { line -> [LeftOutTable] in
      guard case .object(let object)? = try? JSONReader.read(line) else { throw foreign }
      return (object["tables"] == nil ? [object] : object.objects("tables")).compactMap { item in
        guard let source = item.text("source"), let name = item.text("name") else { return nil }
        return LeftOutTable(source: source, namespace: item.text("schema") ?? "", name: name)
      }
    }
  }

  private var foreign: CairnError {
    CairnError(
      .stateForeign, "\(path) was not written by this version of Cairn, so the tables that were left out are unknown",
      hint: "remove the file, and run 'cairn copy' for the tables that were added to 'tables' since")
  }

  /// Opens the file for additions by one apply.
  func open() throws -> LeftOutAdditions { LeftOutAdditions(self, try read()) }

  fileprivate static func isShort(_ table: LeftOutTable) -> Bool {
    [table.source, table.namespace, table.name].allSatisfy { $0.utf8.count <= nameBytesMax }
  }

  fileprivate static func line(_ table: LeftOutTable) -> String {
    JSONObject([
      ("source", .text(table.source)), ("schema", .text(table.namespace)), ("name", .text(table.name)),
    ]).line + "\n"
  }

  /// Removes tables from the file, by their names at the source.
  func remove(_ sources: Set<NameKey>) throws {
    let all = try read()
    let left = all.filter { !sources.contains($0.source) }
    if left.count < all.count { try write(left.map(Self.line).joined()) }
  }

  fileprivate func write(_ text: String) throws {
    do throws(FileError) {
      try Folder.create(Folder.parent(of: path))
      try File.replace(path, text: text, permissions: 0o640)
    } catch { throw unwritable(error) }
  }

  /// Appends a line durably. Returns false if the file does not have the size that is expected.
  fileprivate func append(_ line: String, at size: Int) throws -> Bool {
    guard size > 0, Folder.exists(path) else { return false }
    do {
      let file = try File(path, .readWrite)
      guard try file.size == UInt64(size) else { return false }
      try Array(line.utf8).withUnsafeBytes { try file.write($0, at: UInt64(size)) }
      try file.syncData()
      return true
    } catch let error as FileError { throw unwritable(error) }
  }

  private func unwritable(_ error: FileError) -> CairnError {
    error.asCairnError(doing: "note which tables an apply leaves out")
  }
}

/// The tables in the file of a ``LeftOutNote``, to which an apply adds tables.
///
/// A peer can invent thousands of tables, so the file is written as a whole only once.
final class LeftOutAdditions: Sendable {
  private struct State {
    var tables: Set<LeftOutTable>
    /// The size of the file, in bytes; nil: the file must be written as a whole.
    var size: Int?
    var bytes: Int
  }

  private let note: LeftOutNote
  private let state: Mutex<State>

  fileprivate init(_ note: LeftOutNote, _ tables: [LeftOutTable]) {
    self.note = note
    let bytes = tables.reduce(0) { $0 + LeftOutNote.line($1).utf8.count }
    state = Mutex(State(tables: Set(tables), bytes: bytes))
  }

  var tables: Set<LeftOutTable> { state.withLock { $0.tables } }

  /// Adds a table durably. Returns false if the file already had the table, or has no room. It has at most 10,000
  /// tables and 4 MiB.
  @discardableResult func add(_ table: LeftOutTable) throws -> Bool {
    try state.withLock { state in
      guard LeftOutNote.isShort(table), !state.tables.contains(table), state.tables.count < LeftOutNote.tablesMax else {
        return false
      }
      let line = LeftOutNote.line(table)
      let bytes = state.bytes + line.utf8.count
      guard bytes <= LeftOutNote.bytesMax else { return false }
      let size = state.size
      state.size = nil
      if try size.map({ try note.append(line, at: $0) }) != true {
        try note.write(state.tables.map(LeftOutNote.line).joined() + line)
      }
      state.tables.insert(table)
      (state.size, state.bytes) = (bytes, bytes)
      return true
    }
  }
}
