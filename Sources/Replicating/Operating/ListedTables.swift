import Changes
import SystemKit

/// The file in a trail's folder with the option `tables` under which its capture last began.
package enum ListedTables {
  private static func path(_ folder: String) -> String { folder + "/listed" }

  /// Returns the option `tables` under which capture last began; nil if that is unknown.
  package static func read(in folder: String) -> TablePatterns? {
    (try? File.text(path(folder))).map { TablePatterns(text: $0) }
  }

  /// Writes the file. If it is lost, all names count as listed before.
  package static func note(_ tables: [String], in folder: String) {
    try? File.replace(path(folder), text: TablePatterns(tables).text, permissions: 0o640)
  }
}
