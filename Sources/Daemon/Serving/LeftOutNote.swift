import Applying
import Changes
import SystemKit

/// The file with the tables that an apply has skipped because its option `tables` does not list them. A table that the
/// option lists later needs a refresh.
///
/// ```
/// let note = LeftOutNote(state: "/var/lib/cairn", apply: "pos")
/// try note.add(LeftOutTable(source: "salaries", namespace: "hr", name: "salaries"))
/// ```
struct LeftOutNote: Sendable {
  static let tablesMax = 10_000
  static let bytesMax = 4 << 20
  /// A table with a longer name is not in the file. If `tables` includes it later, it needs 'cairn copy'.
  static let nameBytesMax = 1024

  private let path: String

  init(state: String, apply: String) { path = "\(state)/applies/\(apply).left-out" }

  static func title(_ table: LeftOutTable) -> String {
    table.namespace.isEmpty || table.namespace == "public" ? table.name : "\(table.namespace).\(table.name)"
  }

  /// Returns the tables in the file; empty if there is no file.
  ///
  /// - Throws: `state-foreign` if the file does not have the format of this version of Cairn.
  func read() throws -> [LeftOutTable] {
    guard Folder.exists(path) else { return [] }
    let text: String
    do throws(FileError) { text = try File.text(path) } catch {
      throw error.asCairnError(doing: "read which tables an apply leaves out")
    }
    guard case .object(let object)? = try? JSONReader.read(text) else {
      throw CairnError(
        .stateForeign, "\(path) was not written by this version of Cairn, so the tables that were left out are unknown",
        hint: "remove the file, and run 'cairn copy' for the tables that were added to 'tables' since")
    }
    return object.objects("tables").compactMap { item in
      guard let source = item.text("source"), let name = item.text("name") else { return nil }
      return LeftOutTable(source: source, namespace: item.text("schema") ?? "", name: name)
    }
  }

  /// Adds a table durably. Returns all tables in the file; nil if the file already had the table, or has no room.
  /// It has at most 10,000 tables and 4 MiB of names.
  @discardableResult func add(_ table: LeftOutTable) throws -> [LeftOutTable]? {
    guard Self.isShort(table) else { return nil }
    var all = try read()
    let bytes = all.reduce(Self.bytes(table)) { $0 + Self.bytes($1) }
    guard !all.contains(table), all.count < Self.tablesMax, bytes <= Self.bytesMax else { return nil }
    all.append(table)
    try write(all)
    return all
  }

  private static func isShort(_ table: LeftOutTable) -> Bool {
    [table.source, table.namespace, table.name].allSatisfy { $0.utf8.count <= nameBytesMax }
  }

  private static func bytes(_ table: LeftOutTable) -> Int {
    table.source.utf8.count + table.namespace.utf8.count + table.name.utf8.count
  }

  /// Removes tables from the file, by their names at the source.
  func remove(_ sources: Set<NameKey>) throws {
    let all = try read()
    let left = all.filter { !sources.contains($0.source) }
    if left.count < all.count { try write(left) }
  }

  private func write(_ tables: [LeftOutTable]) throws {
    let list = tables.map { table in
      JSONObject.Value.object(
        JSONObject([
          ("source", .text(table.source)), ("schema", .text(table.namespace)), ("name", .text(table.name)),
        ]))
    }
    do throws(FileError) {
      try Folder.create(Folder.parent(of: path))
      try File.replace(path, text: JSONObject([("tables", .list(list))]).line + "\n", permissions: 0o640)
    } catch { throw error.asCairnError(doing: "note which tables an apply leaves out") }
  }
}
