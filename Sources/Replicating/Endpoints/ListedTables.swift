import Changes
import SystemKit

/// The file that stores the option `tables` of a capture or an apply, as it was at the worker's last start. A capture
/// has it in the trail's folder.
package enum ListedTables {
  private static func path(_ folder: String) -> String { folder + "/listed" }
  private static func path(_ state: String, _ apply: String) -> String { "\(state)/applies/\(apply).listed" }

  /// Returns the option `tables` as it was at the capture's last start; nil if the file is missing.
  package static func read(in folder: String) -> TablePatterns? { read(path(folder)) }

  /// Returns the option `tables` as it was at the last start of an apply; nil if the file is missing.
  package static func read(state: String, apply: String) -> TablePatterns? { read(path(state, apply)) }

  /// Writes the option `tables` of a capture to the file.
  package static func note(_ tables: [String], in folder: String) { note(tables, at: path(folder)) }

  /// Writes the option `tables` of an apply to the file.
  package static func note(_ tables: [String], state: String, apply: String) {
    let path = path(state, apply)
    try? Folder.create(Folder.parent(of: path))
    note(tables, at: path)
  }

  private static func read(_ path: String) -> TablePatterns? {
    (try? File.text(path)).map { TablePatterns(text: $0) }
  }

  private static func note(_ tables: [String], at path: String) {
    try? File.replace(path, text: TablePatterns(tables).text, permissions: 0o640)
  }
}
