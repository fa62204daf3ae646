import Changes
import Mapping
import PostgresKit
import SQLiteKit

extension KeyCheck {
  /// Throws `table-refused` for a table in which two nodes would not agree which keys are equal, or that has no key.
  ///
  /// - Parameter source: The table's schema in the trail.
  /// - Parameter target: The table's schema in the target.
  static func check(
    _ source: TableSchema, _ target: TableSchema, in place: Place, includes: (String, String) -> Bool
  ) throws {
    if case .postgres(let server) = place { try refuseLookAlike(source, target, server) }
    if source.engine == .postgres, let (one, other) = source.likeColumns {
      throw refusal(
        source, TableSchema.likeColumnsReason(one, other),
        hint: "rename one of them: ALTER TABLE \(source.qualifiedName) RENAME COLUMN \(other.quotedName) TO ...")
    }
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
    throw refusal(
      source, why,
      hint:
        "give it a key in which different texts are never equal, such as text, numbers or uuid, at each node; or leave the table out: \([source.fullName].leftOut)"
    )
  }

  private static func refusal(_ source: TableSchema, _ why: String, hint: String) -> CairnError {
    CairnError(
      .tableRefused, "table \(source.fullName) cannot be replicated two-way: \(why)", hint: hint,
      context: ["table": source.fullName])
  }

  /// Throws `table-refused` if the server has a table that is older than `target` and whose name differs only in case.
  private static func refuseLookAlike(
    _ source: TableSchema, _ target: TableSchema, _ server: PostgresConnection
  ) throws {
    guard let older = try server.olderLookAlike(of: target) else { return }
    throw refusal(
      source,
      "the target has table \(older), whose name differs only in the case of ASCII letters",
      hint: "rename one of them at both nodes: ALTER TABLE \(source.qualifiedName) RENAME TO ...")
  }

  /// Returns the key columns that are `numeric` without a scale at a PostgreSQL source and that the SQLite target
  /// stores as text.
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

  /// Returns whether an SQLite column stores texts such as 1.5 and 1.50 as different values.
  package static func keepsTexts(_ column: TableSchema.Column) -> Bool { ["TEXT", "BLOB"].contains(column.affinity) }
}
