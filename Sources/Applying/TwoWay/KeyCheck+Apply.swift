import Changes
import Mapping
import SQLiteKit

/// The refusal of a table that cannot go both ways.
extension KeyCheck {
  /// Throws `table-refused` for a table whose rows two nodes would distinguish differently, so that the table waits.
  ///
  /// - Parameters:
  ///   - source: the table as the trail has it.
  ///   - target: the table as it is in the database that apply writes.
  static func check(
    _ source: TableSchema, _ target: TableSchema, in place: Place, includes: (String, String) -> Bool
  ) throws {
    let texts = try numericTexts(source, target, place)
    let why: String?
    if source.key.isEmpty || source.flags.contains(.wholeRow) {
      why = "it has no key"
    } else if let loose = declared(source) {
      why = loose
    } else if let column = texts.first {
      why =
        "column \(column.text) of its key \(KeyEquality.problem([KeyPart("numeric", isText: true)]) ?? "")"
    } else {
      why = try problem(of: target, in: place, includes: includes)
    }
    guard let why else { return }
    throw CairnError(
      .tableRefused, "table \(source.fullName) cannot go both ways: \(why)",
      hint:
        "give it a key of which different texts are different values, such as text, numbers or uuid, at each node; or leave it out of 'tables' (--tables \("*,!\(source.fullName)".shellWord))",
      context: ["table": source.fullName])
  }

  /// The key columns of PostgreSQL's numeric without a scale that the SQLite target, as it is, keeps as text.
  private static func numericTexts(
    _ source: TableSchema, _ target: TableSchema, _ place: Place
  ) throws -> [NameKey] {
    guard case .sqlite(let database) = place, source.engine == .postgres else { return [] }
    let columns = source.key.filter { PostgresType(source.columns[$0]).kind == .numeric(nil) }
    guard !columns.isEmpty else { return [] }
    let types = try database.query("SELECT name, type FROM pragma_table_xinfo(?)", [.text(target.name)])
    return columns.filter { index in
      let name = target.columns[index].name.sqliteKey
      guard let there = types.first(where: { $0[0].string.sqliteKey == name }) else { return false }
      return keepsTexts(TableSchema.Column(name: "", declaredType: there[1].string))
    }.map { source.columns[$0].name.sqliteKey }
  }

  /// Returns whether a column of SQLite distinguishes 1.5 and 1.50 if they come as texts.
  package static func keepsTexts(_ column: TableSchema.Column) -> Bool { ["TEXT", "BLOB"].contains(column.affinity) }
}
