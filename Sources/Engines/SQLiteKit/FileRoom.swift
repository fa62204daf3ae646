import Changes

/// A limit on the rows of a table that one reading of a file can give. The pages of a damaged file may point to each
/// other in a circle, so that a small file has rows without end.
///
///     var room = try FileRoom(database, table)
///     while try statement.step() { try room.takeRow() }
package struct FileRoom {
  /// The least bytes of a row in a page: two for its place, two for its length and key.
  private static let rowBytesMin: Int64 = 4
  private var rows: Int64
  private var bytes: Int64
  private let added: Int64
  private let table: String
  private let path: String

  /// Creates the room of a file, as it is in the open snapshot. Texts may be longer in UTF-8 than in UTF-16, and numbers
  /// longer in the trail. A row may lack a column that was added after it: the reading gives the column's default.
  ///
  /// - Parameter expansion: How many bytes the reading may make of one byte of the file, at most.
  package init(_ database: Database, _ schema: TableSchema, expansion: Int64 = 2) throws {
    let size = try Self.size(of: database)
    rows = size / Self.rowBytesMin
    bytes = size.multipliedReportingOverflow(by: expansion).partialValue.addingBounded(1 << 20)
    added = schema.columns.reduce(0) { $0 + Int64($1.defaultText?.utf8.count ?? 0) + 8 * expansion }
    (table, path) = (schema.name, database.path)
  }

  /// Counts a row.
  ///
  /// - Throws: `database-damaged` if the file cannot have that many.
  package mutating func takeRow() throws(CairnError) {
    rows -= 1
    bytes = bytes.addingBounded(added)
    if rows < 0 { throw endless }
  }

  /// Counts the bytes of a row's values.
  ///
  /// - Throws: `database-damaged` if the file cannot have that many.
  package mutating func take(bytes count: Int) throws(CairnError) {
    bytes -= Int64(count)
    if bytes < 0 { throw endless }
  }

  private var endless: CairnError {
    CairnError(
      .databaseDamaged, "table \(table) of \(path) has more rows than fit into the file",
      hint: "check the file with 'PRAGMA integrity_check'", context: ["table": table])
  }

  /// Returns the size of the file in the open snapshot, in bytes.
  package static func size(of database: Database) throws -> Int64 {
    let (count, page) = (try database.integer("PRAGMA page_count") ?? 0, try database.integer("PRAGMA page_size") ?? 0)
    return count.multipliedReportingOverflow(by: page).partialValue
  }
}
