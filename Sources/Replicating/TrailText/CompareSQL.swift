import Changes
import Comparing
import Mapping

/// Generates SQL statements that make the target equal to the source.
///
///     var sql = CompareSQL()
///     for line in try sql.statements(difference, table) { print(line) }
package struct CompareSQL {
  private var tables: [NameKey: TableSQL] = [:]
  /// The number of differences that no statement can repair.
  package private(set) var problemCount = 0

  package init() {}

  package static func prologue(_ engine: Engine) -> [String] { TrailSQL(dialect(engine)).prologue + ["BEGIN;"] }

  private static func dialect(_ engine: Engine) -> TrailSQL.Dialect { engine == .sqlite ? .sqlite : .postgres }

  /// Returns the statements that repair one difference, or a comment if no statement can repair it.
  package mutating func statements(_ difference: Difference, _ table: ComparedTable?) throws -> [String] {
    guard let table, difference.kind.isOfRow else {
      problemCount += 1
      return [Self.comment("\(difference.table): \(difference.kind.rawValue) \(difference.column)")]
    }
    let sql = try statementsOf(table)
    do throws(Unrepresentable) { return try Self.render(difference, table, sql).printable() } catch {
      problemCount += 1
      return [Self.comment("\(difference.table): a row cannot be written: \(error.reason)")]
    }
  }

  private mutating func statementsOf(_ table: ComparedTable) throws -> TableSQL {
    if let known = tables[table.name] { return known }
    let made = try TableSQL(schema: table.target.schema, dialect: Self.dialect(table.target.engine))
    tables[table.name] = made
    return made
  }

  private static func render(
    _ difference: Difference, _ table: ComparedTable, _ sql: TableSQL
  ) throws(Unrepresentable) -> [String] {
    let there = difference.target.map { spread($0.map { $0 }, table) } ?? []
    guard let source = difference.source else { return [try sql.delete(there)] }
    var row: [Value?] = []
    for (place, value) in source.enumerated() {
      let made = Result { () throws(Misfit) in try table.columns[place].targetValue(value) }
      switch made {
      case .success(let value): row.append(value)
      case .failure(let misfit):
        throw Unrepresentable(reason: "column \(table.source.column(place).name): \(misfit.reason)")
      }
    }
    let whole = spread(row, table)
    guard difference.target != nil else {
      return try sql.clear(for: whole) + [try sql.insert(whole, isTolerant: true)]
    }
    let changed = Set(difference.columns.map(\.name.nameKey))
    let after = spread(
      row.enumerated().map { place, value in changed.contains(table.source.column(place).name) ? value : nil }, table)
    return try sql.clear(for: whole) + (try sql.update(there, after, isTolerant: false))
  }

  private static func spread(_ values: [Value?], _ table: ComparedTable) -> [Value?] {
    var image: [Value?] = table.target.schema.columns.map { _ in nil }
    for (place, value) in values.enumerated() { image[table.target.columns[place]] = value }
    return image
  }

  private static func comment(_ text: String) -> String {
    text.sqlComment
  }
}
