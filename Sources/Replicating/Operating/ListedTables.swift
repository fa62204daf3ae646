import Changes
import SystemKit

/// The file in a trail's folder that stores the option `tables` of the trail's capture, as it was at the capture's last
/// start.
package enum ListedTables {
  private static func path(_ folder: String) -> String { folder + "/listed" }

  /// Returns the option `tables` as it was at the capture's last start; nil if the file is missing.
  package static func read(in folder: String) -> TablePatterns? {
    (try? File.text(path(folder))).map { TablePatterns(text: $0) }
  }

  /// Writes the option `tables` to the file.
  package static func note(_ tables: [String], in folder: String) {
    try? File.replace(path(folder), text: TablePatterns(tables).text, permissions: 0o640)
  }
}
