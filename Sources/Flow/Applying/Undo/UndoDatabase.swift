import Changes

/// A foreign key that refers to a table of an undo.
struct UndoReference {
  /// The name of the referring table, for messages.
  let child: String
  /// The quoted name of the referring table.
  let table: String
  /// For each referring column, the condition that a row `child` refers to a row `parent`, as the engine compares them
  /// for the foreign key.
  let conditions: [String]
  /// The columns that they refer to, as indexes in the referenced table.
  let references: [Int]
  /// The actions; empty or `NO ACTION` or `RESTRICT` if other rows do not change.
  let onDelete: String
  let onUpdate: String
}

/// The database in which an undo writes, with the statements in which the engines differ.
protocol UndoDatabase {
  var place: String { get }
  /// The clause that locks the row of a query until the transaction ends; empty if the transaction excludes others.
  var rowLock: String { get }
  /// The clause by which a statement fails at a unique value of another row, whatever the table says; may be empty.
  var orAbort: String { get }
  /// The clause of an insert that gives values to identity columns.
  var overriding: String { get }

  /// Prepares the open transaction for writes to a table, as an application's session.
  func hold(_ schema: TableSchema) throws
  func name(of schema: TableSchema) -> String
  /// Returns the name in statements about rows, which leaves rows of inheriting tables alone.
  func rowsName(of schema: TableSchema) -> String
  /// Returns the parameter with this number, from 1, as a value of a column.
  func parameter(_ number: Int, _ column: Int, of schema: TableSchema) -> String
  /// Returns the condition that a column has exactly the value of a parameter, also for NULL.
  func equality(_ number: Int, _ column: Int, of schema: TableSchema) -> String
  /// The columns that name the place of a row in a table, as a list.
  func rowPlace(in schema: TableSchema) throws -> String

  /// Returns the foreign keys that refer to a table, of all tables of the database.
  func references(to parent: TableSchema) throws -> [UndoReference]

  func query(_ sql: String, _ values: [Value]) throws -> [[Value]]
  /// Runs a query that fails if a policy would hide rows from it.
  func queryAllRows(_ sql: String, _ values: [Value]) throws -> [[Value]]
  /// Runs a statement, and returns the number of changed rows.
  @discardableResult func execute(_ sql: String, _ values: [Value]) throws -> Int64
  func transaction<Result>(_ body: () throws -> Result) throws -> Result
  /// Returns the message by which the database refused a row; nil for any other error.
  func refusal(_ error: any Error) -> String?
}

extension UndoDatabase {
  private func list(_ schema: TableSchema) -> String { schema.columns.map(\.name.quotedName).joined(separator: ", ") }

  /// Returns the condition that finds a row, and its parameters.
  ///
  /// - Parameter first: The number of the first parameter.
  private func condition(_ row: [Value?], _ schema: TableSchema, from first: Int)
    throws -> (sql: String, values: [Value])
  {
    let isWhole = schema.isWholeRow(row)
    let columns = isWhole ? Array(schema.columns.indices) : schema.key
    var (terms, values): ([String], [Value]) = ([], [])
    for column in columns {
      guard let value = row[column] else { continue }
      let number = first + values.count
      terms.append(
        isWhole
          ? equality(number, column, of: schema)
          : "\(schema.columns[column].name.quotedName) = \(parameter(number, column, of: schema))")
      values.append(value)
    }
    let condition = terms.isEmpty ? "" : " WHERE " + terms.joined(separator: " AND ")
    guard isWhole else { return (condition, values) }
    let place = try rowPlace(in: schema)
    // One of several equal rows.
    return (" WHERE (\(place)) = (SELECT \(place) FROM \(rowsName(of: schema))\(condition) LIMIT 1)", values)
  }

  /// Returns the row with the identity of `row` as it is now, and locks it; nil if there is none.
  func find(_ row: [Value?], _ schema: TableSchema) throws -> [Value]? {
    let (condition, values) = try condition(row, schema, from: 1)
    return try query("SELECT \(list(schema)) FROM \(rowsName(of: schema))\(condition)\(rowLock)", values).first
  }

  func insert(_ row: [Value], _ schema: TableSchema) throws -> Int64 {
    let marks = row.indices.map { parameter($0 + 1, $0, of: schema) }.joined(separator: ", ")
    return try execute("INSERT\(orAbort) INTO \(name(of: schema))(\(list(schema)))\(overriding) VALUES (\(marks))", row)
  }

  func update(_ row: [Value], _ set: [Int: Value], _ schema: TableSchema) throws -> Int64 {
    let columns = set.keys.sorted()
    let list = columns.enumerated().map { place, column in
      "\(schema.columns[column].name.quotedName) = \(parameter(place + 1, column, of: schema))"
    }
    let (condition, values) = try condition(row, schema, from: columns.count + 1)
    return try execute(
      "UPDATE\(orAbort) \(rowsName(of: schema)) SET \(list.joined(separator: ", "))\(condition)",
      columns.compactMap { set[$0] } + values)
  }

  func delete(_ row: [Value], _ schema: TableSchema) throws -> Int64 {
    let (condition, values) = try condition(row, schema, from: 1)
    return try execute("DELETE FROM \(rowsName(of: schema))\(condition)", values)
  }

  /// Returns whether a row refers to this row by a foreign key.
  func isReferenced(_ row: [Value], of schema: TableSchema, by key: UndoReference) throws -> Bool {
    let (condition, values) = try condition(row, schema, from: 1)
    let rows = try queryAllRows(
      """
      SELECT 1 FROM (SELECT * FROM \(rowsName(of: schema))\(condition)) AS parent
        JOIN \(key.table) AS child ON \(key.conditions.joined(separator: " AND ")) LIMIT 1
      """, values)
    return !rows.isEmpty
  }
}
