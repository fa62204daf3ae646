import Changes
import Conflicts
import Mapping
import SQLiteKit

/// The prepared statements that write rows of one SQLite table, for as long as its schema does not change.
///
/// Parameters `?1…?n` are the row before the change, `?n+1…?2n` the row after it.
final class SQLiteApplyTable {
  enum Insertion: Hashable {
    case strict
    /// An insert that first deletes all rows with one of the new row's unique values.
    case replacing
    case keeping
    /// An insert that updates a row with the same key if there is one.
    case merging
  }

  private enum Shape: Hashable {
    case insert(Insertion)
    /// A delete by key. If `isChecked`, the row must equal the before image.
    case delete(isChecked: Bool)
    case update(columns: ColumnMask, isChecked: Bool, replaces: Bool)
    case probe
    /// A SELECT of the rows that SQL treats as equal to the before image.
    case twins
  }

  let source: TableSchema
  let schema: TableSchema
  /// The source's table with all columns of the trail's row images.
  let imageSchema: TableSchema
  /// The positions, in the trail's row images, of the columns that the target has; nil: all.
  let kept: [Int]?
  /// The conversion of each column of a row from PostgreSQL; nil for a trail of SQLite.
  let converters: [SQLiteValue]?
  /// Whether source and target sort keys alike, so that a range of keys includes the same rows in both.
  let sortsAsSource: Bool
  var state: SQLiteApplyState.Table
  /// The settings of the table's rule about deletes, shared rows and history.
  let treatment: TableTreatment?
  let localWrites: LocalWrites
  /// Whether rows that applications write to the target's table are replicated back to the source.
  let goesBothWays: Bool
  let database: Database
  private var statements: [Shape: Statement] = [:]
  var takesRowsIn: Bool?
  /// The columns with the rule `delta`, whose changes are added up, as indexes in the trail's table.
  var summed: [Int] = []
  /// Two-way: whether two rows may have the same unique value besides the key, so that one becomes a waiting row.
  var mayCollide = false
  lazy var referrers: [Reference] = (try? lookUpReferrers()) ?? []
  /// A cache for ``SQLiteForm``: the last schema, with the index and the conversion of each target column.
  var lastForm: (schema: TableSchema, columns: [(Int, SQLiteValue?)?])?
  /// A cache: the table extended by the columns that only the target has.
  var wider: SQLiteApplyTable?
  private let names: [String]
  let table: String
  /// The columns that have one constant value in this trail's rows.
  let shares: [(name: String, value: Value)]
  private let mark: String?

  /// Creates the object for a target table.
  ///
  /// - Parameter there: The columns of the mapped table that the target has; nil: all.
  /// - Parameter image: The schema of the trail's row images, and for each column of the table its index in that
  ///   schema. Nil: the images have the same columns.
  init(
    _ mapping: TableMapping, state: SQLiteApplyState.Table, database: Database, there: [Int]? = nil,
    image: (schema: TableSchema, positions: [Int])? = nil, localWrites: LocalWrites = .stop,
    goesBothWays: Bool = true
  ) {
    (self.localWrites, self.goesBothWays) = (localWrites, goesBothWays)
    let there = there ?? Array(mapping.target.columns.indices)
    var schema = mapping.target
    schema.columns = there.map { mapping.target.columns[$0] }
    let imageSchema = image?.schema ?? mapping.target
    let positions = there.map { image?.positions[$0] ?? $0 }
    kept = positions.count == imageSchema.columns.count ? nil : positions
    (self.imageSchema, self.schema) = (imageSchema, schema)
    let source = mapping.source
    self.source = source
    converters =
      source.engine == .sqlite
      ? nil : (image?.schema ?? source).columns.map { SQLiteValue(from: $0, goesBothWays: goesBothWays) }
    // Chunks are ordered by the bytes of UTF-8. In a file in UTF-16, text is ordered differently.
    let isUTF16 = database.isUTF16
    sortsAsSource =
      source.engine == .sqlite
      ? !isUTF16
      : source.rangeKey.allSatisfy {
        let type = PostgresType(source.columns[$0])
        return type.keepsOrderInSQLite && !(isUTF16 && type.isText)
      }
    self.state = state
    self.database = database
    treatment = source.treatment
    shares = (source.treatment?.shares ?? []).compactMap { share in
      source.columns.firstIndex { $0.name.hasSameBytes(as: share.column) }.map {
        (name: mapping.target.columns[$0].name, value: share.value)
      }
    }
    if case .marked(let column) = source.treatment?.removal {
      mark = source.columns.firstIndex { $0.name.hasSameBytes(as: column) }.map {
        mapping.target.columns[$0].name.quotedName
      }
    } else {
      mark = nil
    }
    table = schema.name.quotedName
    names = schema.columns.map(\.name.quotedName)
  }

  /// The policy for rows that the target's table already has: keep them, overwrite them, or merge the source's rows
  /// into them.
  var existing: ExistingRows { localWrites.areSettled && state.refreshing == nil ? .overwrite : state.existing }

  /// Returns whether a row can be identified only by all its values: the table has no key, or the row's key has NULL.
  func isWholeRow(_ before: [ColumnView]) -> Bool {
    if schema.flags.contains(.wholeRow) { return true }
    guard schema.flags.contains(.nullableKey) else { return false }
    return schema.key.contains { if case .null = before[$0] { true } else { false } }
  }

  // MARK: Writing; each returns the number of rows that it touched

  func insert(_ row: [ColumnView], _ insertion: Insertion) throws -> Int64 {
    if insertion == .replacing, try !ownColumns.isEmpty, !isWholeRow(row) {
      let touched = try update(row, row, isChecked: false)
      if touched > 0 { return touched }
    }
    let clears = insertion == .replacing && !shares.isEmpty
    return try clearingShare(for: row, key: row, if: clears) {
      let statement = try prepared(.insert(clears ? .merging : insertion), isWholeRow: false)
      for (index, column) in row.enumerated() { try statement.bind(column, at: names.count + index + 1) }
      return try run(statement)
    }
  }

  func insert(_ row: [Value]) throws -> Int64 {
    let statement = try prepared(.insert(.strict), isWholeRow: false)
    for (index, value) in row.enumerated() { try statement.bind(value, at: names.count + index + 1) }
    return try run(statement)
  }

  func delete(_ before: [ColumnView], isChecked: Bool) throws -> Int64 {
    let whole = isWholeRow(before)
    if whole {
      guard let twin = try twin(of: before) else { return 0 }
      let statement = try prepared(.delete(isChecked: true), isWholeRow: true)
      try statement.bind(twin, at: 1)
      return try run(statement)
    }
    let isFull = !before.contains { $0.isUnchanged }
    let statement = try prepared(.delete(isChecked: isChecked && isFull), isWholeRow: false)
    try bind(before, to: statement, all: isChecked && isFull)
    return try run(statement)
  }

  /// Updates the row with the key of `before`; without a key, one row that equals `before`. Returns the number of
  /// updated rows.
  ///
  /// With `isChecked`, the row must equal `before`, if `before` has all columns. `after` has values only for the
  /// columns to set.
  func update(_ before: [ColumnView], _ after: [ColumnView], isChecked: Bool) throws -> Int64 {
    let whole = isWholeRow(before)
    var mask = ColumnMask()
    for (index, column) in after.enumerated() where !column.isUnchanged { mask.insert(index) }
    // No given value changes: the statement only finds out whether the row is there.
    if mask.isEmpty, let given = before.indices.first(where: { !before[$0].isUnchanged }) { mask.insert(given) }
    let isFull = !before.contains { $0.isUnchanged }
    let checks = (isChecked && isFull) || whole
    let twin = whole ? try twin(of: before) : nil
    if whole, twin == nil { return 0 }
    let replaces = !isChecked && !checks && !mayCollide
    let clears = replaces && !shares.isEmpty
    return try clearingShare(for: zip(before, after).map { $1.isUnchanged ? $0 : $1 }, key: before, if: clears) {
      let statement = try prepared(
        .update(columns: mask, isChecked: checks, replaces: replaces && !clears), isWholeRow: whole)
      if let twin {
        try statement.bind(twin, at: 1)
      } else {
        try bind(before, to: statement, all: checks)
      }
      for (index, column) in after.enumerated() where mask.contains(index) {
        try statement.bind(column.isUnchanged ? before[index] : column, at: names.count + index + 1)
      }
      return try run(statement)
    }
  }

  /// Returns the rowid of one row that equals `before` in every value and storage class.
  private func twin(of before: [ColumnView]) throws -> Int64? {
    let statement = try prepared(.twins, isWholeRow: true)
    try bind(before, to: statement, all: true)
    defer { statement.reset() }
    while try statement.step() {
      let isTwin = before.enumerated().allSatisfy { index, column in
        switch (column.value, statement.value(index + 1)) {
        case (.real(let a)?, .real(let b)): a.bitPattern == b.bitPattern
        case (let a, let b): a == b
        }
      }
      if isTwin { return statement.integer(0) }
    }
    return nil
  }

  /// Returns the target's row with the key of `before`; nil if there is none.
  func probe(_ before: [ColumnView]) throws -> [Value]? {
    guard !isWholeRow(before) else { return nil }
    let statement = try prepared(.probe, isWholeRow: false)
    try bind(before, to: statement, all: false)
    defer { statement.reset() }
    guard try statement.step() else { return nil }
    return (0..<names.count).map { statement.value($0) }
  }

  private func bind(_ before: [ColumnView], to statement: Statement, all: Bool) throws {
    if all {
      for (index, column) in before.enumerated() { try statement.bind(column, at: index + 1) }
    } else {
      for index in schema.key { try statement.bind(before[index], at: index + 1) }
    }
  }

  private func run(_ statement: Statement) throws -> Int64 {
    while try statement.step() {}
    return database.changes
  }

  // MARK: Columns that only the target has

  /// A cache of the columns that only the target has; nil: not read yet.
  private var foundOwn: [String]?
  var ownColumns: [String] {
    get throws { try foundOwn ?? lookAtOwnColumns() }
  }

  private func lookAtOwnColumns() throws -> [String] {
    let known = Set(schema.columns.map { $0.name.sqliteKey })
    let there = try database.query("SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", [.text(schema.name)])
    let own = there.map { $0[0].string }.filter { !known.contains($0.sqliteKey) }.map(\.quotedName)
    foundOwn = own
    return own
  }

  /// Returns the names of the columns that only the target has. Nil unless a row has a value in one of them.
  func ownValues() throws -> String? {
    let own = try lookAtOwnColumns()
    guard !own.isEmpty else { return nil }
    let filled = own.map { "\($0) IS NOT NULL" }.balanced("OR")
    guard try database.integer("SELECT 1 FROM \(table) WHERE \(filled) LIMIT 1") != nil else { return nil }
    return own.joined(separator: ", ")
  }

  /// Saves the values of columns that only the target has, before a refresh chunk replaces the rows. Returns whether
  /// any were saved.
  func setAside(_ range: Refresh.Range) throws -> Bool {
    let own = try lookAtOwnColumns()
    guard !own.isEmpty, !schema.key.isEmpty, !schema.flags.contains(.wholeRow), let rows = rows(in: range) else {
      return false
    }
    let key = schema.key.enumerated().map { "\(names[$1]) AS k\($0)" }
    let values = own.enumerated().map { "\($1) AS o\($0)" }
    try database.run(
      "CREATE TEMP TABLE cairn_aside AS SELECT \((key + values).joined(separator: ",")) FROM \(table)\(rows.condition)",
      rows.values)
    return true
  }

  func giveBack() throws {
    let own = try ownColumns
    let set = own.enumerated().map { "\($1) = a.o\($0)" }.joined(separator: ", ")
    let key = schema.key.enumerated().map { "\(table).\(names[$1]) = a.k\($0)" }.joined(separator: " AND ")
    try database.execute("UPDATE \(table) SET \(set) FROM temp.cairn_aside AS a WHERE \(key)")
    try database.execute("DROP TABLE temp.cairn_aside")
  }

  private func imageIndex(_ index: Int) -> Int { kept?[index] ?? index }

  private func value(_ image: [Value?], _ column: Int) -> Value {
    let index = imageIndex(column)
    let value = image[index] ?? .null
    guard let converters else { return value }
    var made = ByteWriter(capacity: 64)
    return value.withView { view in (try? converters[index].convert(view, scratch: &made))?.value } ?? value
  }

  // MARK: SQL

  private func prepared(_ shape: Shape, isWholeRow: Bool) throws -> Statement {
    // Statements for a row with NULL in the key are rare, so they are not kept.
    let isKept = isWholeRow == schema.flags.contains(.wholeRow)
    if isKept, let statement = statements[shape] { return statement }
    let statement = try database.prepare(try sql(shape, isWholeRow))
    if isKept {
      if statements.count > 100 { statements.removeAll() }
      statements[shape] = statement
    }
    return statement
  }

  private func sql(_ shape: Shape, _ isWholeRow: Bool) throws -> String {
    let after = names.indices.map { "?\(names.count + $0 + 1)" }
    switch shape {
    case .insert(let insertion):
      let clause = insertion == .replacing ? " OR REPLACE" : Self.orAbort
      let key = "(\(schema.key.map { names[$0] }.joined(separator: ",")))"
      let conflict =
        switch insertion {
        case .strict, .replacing: ""
        case .keeping: " ON CONFLICT\(key) DO NOTHING"
        case .merging:
          " ON CONFLICT\(key) DO UPDATE SET "
            + names.map { "\($0) = excluded.\($0)" }.joined(separator: ",")
        }
      return
        "INSERT\(clause) INTO \(table)(\(names.joined(separator: ","))) VALUES (\(after.joined(separator: ",")))\(conflict)"
    case .delete(let isChecked):
      return "DELETE FROM \(table) WHERE \(try condition(isChecked, isWholeRow))"
    case .update(let mask, let isChecked, let replaces):
      let set = names.indices.filter { mask.contains($0) }
        .map { "\(names[$0]) = \(after[$0])" }
      let clause = replaces ? " OR REPLACE" : Self.orAbort
      return "UPDATE\(clause) \(table) SET \(set.joined(separator: ",")) WHERE \(try condition(isChecked, isWholeRow))"
    case .twins:
      let all = names.indices.map { "\(names[$0]) COLLATE BINARY IS ?\($0 + 1)" }
      return "SELECT \(try rowid.get()),\(names.joined(separator: ",")) FROM \(table) WHERE \(all.balanced("AND"))"
    case .probe:
      return "SELECT \(names.joined(separator: ",")) FROM \(table) WHERE \(try condition(false, false))"
    }
  }

  private func condition(_ isChecked: Bool, _ isWholeRow: Bool) throws -> String {
    let all = names.indices.map { index in
      // If the affinity leaves numbers as they are, 7 and 7.0 are two values.
      let isTyped = schema.columns[index].affinity != "BLOB"
      let value = "\(names[index]) COLLATE BINARY IS ?\(index + 1)"
      return isTyped ? value : "(\(value) AND typeof(\(names[index])) = typeof(?\(index + 1)))"
    }
    if isWholeRow { return "\(try rowid.get()) = ?1" }
    let key = schema.key.map { "\(names[$0]) = ?\($0 + 1)" }
    return (key + (isChecked ? all : [])).balanced("AND")
  }

  private lazy var rowid = Result { try RowidName(of: schema.name, in: database).text }

  // MARK: Refresh

  var removal: TableTreatment.Removal { treatment?.removal ?? .applied }

  /// Deletes this trail's rows of a key range; all of its rows if `range` is nil. A rule of the table can keep or mark
  /// them instead.
  func remove(_ range: Refresh.Range?, at time: String) throws {
    guard let rows = range.map({ self.rows(in: $0) }) ?? all else { return }
    switch removal {
    case .applied: try database.run("DELETE FROM \(table)\(rows.condition)", rows.values)
    case .kept: break
    case .marked:
      guard let mark else { return }
      let condition = rows.condition.isEmpty ? " WHERE" : rows.condition + " AND"
      try database.run(
        "UPDATE\(Self.orAbort) \(table) SET \(mark) = ?\(condition) \(mark) IS NULL", [.text(time)] + rows.values)
    }
  }

  /// Returns keys of a range (nil: all rows) after `last`, in order: at most `limit`, and no more after `bytesMax` bytes.
  /// Empty if there are none. Leaves out keys with NULL.
  func keys(in range: Refresh.Range?, after last: [Value]?, limit: Int, bytesMax: Int) throws -> [[Value]] {
    guard let rows = range.map({ self.rows(in: $0) }) ?? all else { return [] }
    let ordered = ordered(schema.key)
    var terms = schema.flags.contains(.nullableKey) ? schema.key.map { "\(names[$0]) IS NOT NULL" } : []
    if last != nil {
      terms.append("(\(ordered.joined(separator: ","))) > (\(ordered.map { _ in "?" }.joined(separator: ",")))")
    }
    let more = terms.joined(separator: " AND ")
    let condition =
      more.isEmpty ? rows.condition : rows.condition + (rows.condition.isEmpty ? " WHERE " : " AND ") + more
    let statement = try database.prepare(
      """
      SELECT \(schema.key.map { names[$0] }.joined(separator: ",")) FROM \(table)\(condition)
      ORDER BY \(ordered.joined(separator: ",")) LIMIT \(limit)
      """)
    try statement.bind(rows.values + (last ?? []))
    return try statement.rows(bytesMax: bytesMax)
  }

  func holdsRows() throws -> Bool {
    let rows = all
    return try database.first("SELECT 1 FROM \(table)\(rows.condition) LIMIT 1", rows.values) != nil
  }

  /// The key columns by which chunks are ordered. Columns with one constant value are left out.
  private var rangeKey: [Int] {
    guard !shares.isEmpty else { return schema.key }
    return schema.key.filter { index in !shares.contains { $0.name.hasSameBytes(as: schema.columns[index].name) } }
  }

  /// Returns the SQL terms, with collations, that sort key columns as the source does.
  private func ordered(_ key: [Int]) -> [String] {
    key.map { index in
      let collation = schema.columns[index].collation
      return names[index] + (collation.isEmpty ? "" : " COLLATE \(collation.quotedName)")
    }
  }

  /// Returns the WHERE clause for the rows of a key range, with its values; nil if the range has no bounds.
  private func rows(in range: Refresh.Range) -> (condition: String, values: [Value])? {
    switch range {
    case .unkeyed, .some: return nil
    case .row(let key):
      let terms = schema.key.map { "\(names[$0]) = ?" }.joined(separator: " AND ")
      return terms.isEmpty ? nil : (" WHERE \(terms)", schema.key.map { value(key, $0) })
    case .nullKeys:
      let terms = rangeKey.map { "\(names[$0]) IS NULL" }.joined(separator: " OR ")
      let all = all
      return ((all.condition.isEmpty ? " WHERE " : all.condition + " AND ") + "(\(terms))", all.values)
    case .keys(let after, let through):
      let key = rangeKey
      let columns = ordered(key)
      var terms = shares.map { "\($0.name.quotedName) = ?" }
      var values = shares.map(\.value)
      if schema.flags.contains(.nullableKey) { terms += key.map { "\(names[$0]) IS NOT NULL" } }
      for (sign, bound) in [(">", after), ("<=", through)] {
        guard let bound else { continue }
        let marks = columns.map { _ in "?" }.joined(separator: ",")
        terms.append(
          columns.count == 1 ? "\(columns[0]) \(sign) ?" : "(\(columns.joined(separator: ","))) \(sign) (\(marks))")
        values += key.map { value(bound, $0) }
      }
      return (terms.isEmpty ? "" : " WHERE " + terms.joined(separator: " AND "), values)
    }
  }
}
