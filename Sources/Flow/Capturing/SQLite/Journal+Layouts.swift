import Changes
import SQLiteKit
import SystemKit

extension Journal {
  /// The maximum size of the list of captured tables that is read from a source, in bytes.
  private static let patternsBytesMax = 1 << 20

  /// Returns the patterns that select the captured tables, as capture stored them in the source.
  ///
  /// - Throws: `database-unsafe` for more than 1 MiB, which Cairn did not write.
  package func patterns() throws -> TablePatterns {
    let text = try database.text("SELECT place FROM cairn_control WHERE id = 1") ?? "*"
    guard text.utf8.count <= Self.patternsBytesMax else {
      throw CairnError(
        .databaseUnsafe,
        "the list of captured tables in \(database.path) has more than \(Self.patternsBytesMax >> 20) MiB",
        hint: "find the program that wrote it to table cairn_control; then start capture again, which writes the list")
    }
    return TablePatterns(text: text)
  }

  /// Returns the recorded shapes of the captured tables.
  ///
  /// - Throws: `database-damaged` for rows of `cairn_layout` that Cairn cannot have written, and `database-unsafe` for
  ///   too many.
  func layouts() throws -> [CaptureInstance] {
    var layouts = ReadLayouts()
    try database.forEachRow("SELECT \(CaptureInstance.columns) FROM cairn_layout ORDER BY id") { row in
      Pulse.beat()
      try layouts.add(row)
    }
    return layouts.all
  }

  func layoutsByID() throws -> [Int64: CaptureInstance] {
    Dictionary(try layouts().map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first })
  }

  /// - Parameter room: The most memory that the layout may take, in bytes.
  func layout(_ id: Int64, room: Int) throws -> CaptureInstance? {
    try database.query("SELECT \(CaptureInstance.columns) FROM cairn_layout WHERE id = ?", [.integer(id)]).first
      .map { try CaptureInstance(row: $0, room: room) }
  }

  func activeLayouts() throws -> [CaptureInstance] { try layouts().filter { $0.ended == nil } }
}
