import Changes
import Conflicts
import Mapping
import SQLiteKit

/// The statements that write the rows of one table, for one epoch of its schema. Prepared when first needed.
///
/// Parameters are numbered by column: `?1…?n` the row before, `?n+1…?2n` the row after.
final class TargetTable {
  enum Insertion: Hashable {
    case strict
    /// Rows that stand in the way, by any unique key, go.
    case replacing
    /// A row with the same key stays as it is.
    case keeping
    /// A row with the same key takes the values; columns that only the target has stay.
    case merging
  }

  private enum Shape: Hashable {
    case insert(Insertion)
    /// By the key alone (`isChecked` false), or also by every other value of the row before.
    case delete(isChecked: Bool)
    case update(columns: ColumnMask, isChecked: Bool, replaces: Bool)
    case probe
    /// Rows that SQL takes for equal to the row before.
    case twins
  }

  /// As the trail has it, or the part of that which is written.
  let source: TableSchema
  /// As the target has it.
  let schema: TableSchema
  /// As the trail has it, with columns that the target may lack.
  let imageSchema: TableSchema
  /// The columns of an image that the target has; nil: all.
  let kept: [Int]?
  /// What turns the values of another engine into those of the target, by column; nil where they are the same.
  let converters: [SQLiteValue]?
  /// Whether the target sorts keys as the source does, so that a range of them is the same there.
  let sortsAsSource: Bool
  var state: TargetState.Table
  /// What a rule says of it.
  let treatment: TableTreatment?
  /// What becomes of what others write to it.
  let localWrites: LocalWrites
  /// What others write to it goes back.
  let goesBothWays: Bool
  let database: Database
  private var statements: [Shape: Statement] = [:]
  /// Two-way: no row that is there is changed; nil: not looked up.
  var takesRowsIn: Bool?
  /// The columns, by their place in the trail, whose changes are summed.
  var summed: [Int] = []
  /// Two-way: rows may clash in unique values besides the key. None of them is replaced for that: it is judged.
  var mayCollide = false
  /// Foreign keys of others that lead to it.
  lazy var referrers: [Reference] = (try? lookUpReferrers()) ?? []
  /// The place and the form of each column in rows of the last schema that a ``SQLiteForm`` was asked for.
  var lastForm: (schema: TableSchema, columns: [(Int, SQLiteValue?)?])?
  /// As of ``wide()``, the last time.
  var wider: TargetTable?
  private let names: [String]
  private let table: String
  /// Columns with the value that tells this trail's rows from others.
  private let shares: [(name: String, value: Value)]
  /// The column that has the time when a row was removed; quoted.
  private let mark: String?

  /// `there`: the columns of the mapping that the target has, nil: all. `image`, with the place of each column of the
  /// mapping in it: the shape that the trail has, where the mapping is that of a part.
  init(
    _ mapping: TableMapping, state: TargetState.Table, database: Database, there: [Int]? = nil,
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
    // Chunks follow the bytes of UTF-8; in a file in UTF-16, text does not.
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

  /// The policy for rows that the target has already. If local writes are settled row by row, it holds in a copy only.
  var existing: ExistingRows { localWrites.areSettled && state.refreshing == nil ? .overwrite : state.existing }

  /// True when a row is told from others by all its values.
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
    let statement = try prepared(.insert(insertion), isWholeRow: false)
    for (index, column) in row.enumerated() { try statement.bind(column, at: names.count + index + 1) }
    return try run(statement)
  }

  /// A row that had to wait.
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

  /// `after` holds values for the columns that change; the others are unchanged.
  func update(_ before: [ColumnView], _ after: [ColumnView], isChecked: Bool) throws -> Int64 {
    let whole = isWholeRow(before)
    var mask = ColumnMask()
    for (index, column) in after.enumerated() where !column.isUnchanged { mask.insert(index) }
    // Nothing changed that is told: the row is only looked for.
    if mask.isEmpty, let given = before.indices.first(where: { !before[$0].isUnchanged }) { mask.insert(given) }
    let isFull = !before.contains { $0.isUnchanged }
    let checks = (isChecked && isFull) || whole
    let twin = whole ? try twin(of: before) : nil
    if whole, twin == nil { return 0 }
    let statement = try prepared(
      .update(columns: mask, isChecked: checks, replaces: !isChecked && !checks && !mayCollide), isWholeRow: whole)
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

  /// The rowid of one row that is equal to `before` in every value and storage class; SQL's own comparison takes 1 for
  /// 1.0, and 0.0 for -0.0.
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

  /// The row with the key of `before`, as the target has it; nil when there is none.
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

  /// Looked up once; for a chunk of a copy again.
  private var foundOwn: [String]?
  var ownColumns: [String] {
    get throws { try foundOwn ?? lookAtOwnColumns() }
  }

  /// The target's columns that the source has not, and that are not computed: quoted.
  private func lookAtOwnColumns() throws -> [String] {
    let known = Set(schema.columns.map { $0.name.sqliteKey })
    let there = try database.query("SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", [.text(schema.name)])
    let own = there.map { $0[0].string }.filter { !known.contains($0.sqliteKey) }.map(\.quotedName)
    foundOwn = own
    return own
  }

  /// Those of them that have a value in some row, for people; nil when nothing would be lost with the rows.
  func ownValues() throws -> String? {
    let own = try lookAtOwnColumns()
    guard !own.isEmpty else { return nil }
    let filled = own.map { "\($0) IS NOT NULL" }.balanced("OR")
    guard try database.integer("SELECT 1 FROM \(table) WHERE \(filled) LIMIT 1") != nil else { return nil }
    return own.joined(separator: ", ")
  }

  /// Keeps what they have in the rows of a range that are about to come again, in a temporary table. True when there is
  /// something to be given back.
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

  /// Gives rows with the same key what was set aside.
  func giveBack() throws {
    let own = try ownColumns
    let set = own.enumerated().map { "\($1) = a.o\($0)" }.joined(separator: ", ")
    let key = schema.key.enumerated().map { "\(table).\(names[$1]) = a.k\($0)" }.joined(separator: " AND ")
    try database.execute("UPDATE \(table) SET \(set) FROM temp.cairn_aside AS a WHERE \(key)")
    try database.execute("DROP TABLE temp.cairn_aside")
  }

  private func imageIndex(_ index: Int) -> Int { kept?[index] ?? index }

  /// What an image of the key alone has for a column, as the target has it.
  private func value(_ image: [Value?], _ column: Int) -> Value {
    let index = imageIndex(column)
    let value = image[index] ?? .null
    guard let converters else { return value }
    var made = ByteWriter(capacity: 64)
    return value.withView { view in (try? converters[index].convert(view, scratch: &made))?.value } ?? value
  }

  // MARK: SQL

  private func prepared(_ shape: Shape, isWholeRow: Bool) throws -> Statement {
    // A row with NULL in its key has statements of its own, which are rare: they are not kept.
    let isKept = isWholeRow == schema.flags.contains(.wholeRow)
    if isKept, let statement = statements[shape] { return statement }
    let statement = try database.prepare(sql(shape, isWholeRow))
    if isKept {
      if statements.count > 100 { statements.removeAll() }
      statements[shape] = statement
    }
    return statement
  }

  /// Has a statement fail if its row breaks a constraint. Otherwise the ON CONFLICT clause of a constraint of the target
  /// would leave the row out, or delete another one, without a word.
  ///
  /// Source: https://sqlite.org/lang_conflict.html
  static let orAbort = " OR ABORT"

  private func sql(_ shape: Shape, _ isWholeRow: Bool) -> String {
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
      return "DELETE FROM \(table) WHERE \(condition(isChecked, isWholeRow))"
    case .update(let mask, let isChecked, let replaces):
      let set = names.indices.filter { mask.contains($0) }
        .map { "\(names[$0]) = \(after[$0])" }
      let clause = replaces ? " OR REPLACE" : Self.orAbort
      return "UPDATE\(clause) \(table) SET \(set.joined(separator: ",")) WHERE \(condition(isChecked, isWholeRow))"
    case .twins:
      let all = names.indices.map { "\(names[$0]) COLLATE BINARY IS ?\($0 + 1)" }
      return "SELECT \(rowid),\(names.joined(separator: ",")) FROM \(table) WHERE \(all.balanced("AND"))"
    case .probe:
      return "SELECT \(names.joined(separator: ",")) FROM \(table) WHERE \(condition(false, false))"
    }
  }

  private func condition(_ isChecked: Bool, _ isWholeRow: Bool) -> String {
    let all = names.indices.map { index in
      // Where the affinity leaves numbers as they are, 7 and 7.0 are two values.
      let isTyped = schema.columns[index].affinity != "BLOB"
      let value = "\(names[index]) COLLATE BINARY IS ?\(index + 1)"
      return isTyped ? value : "(\(value) AND typeof(\(names[index])) = typeof(?\(index + 1)))"
    }
    if isWholeRow { return "\(rowid) = ?1" }
    let key = schema.key.map { "\(names[$0]) = ?\($0 + 1)" }
    return (key + (isChecked ? all : [])).balanced("AND")
  }

  private var rowid: String {
    let taken = Set(schema.columns.map { $0.name.sqliteKey })
    return ["rowid", "_rowid_", "oid"].first { !taken.contains($0.nameKey) } ?? "rowid"
  }

  // MARK: Refresh

  var removal: TableTreatment.Removal { treatment?.removal ?? .applied }

  /// Removes what the target has in the range of a chunk, or all: deletes it, unless a rule keeps it, or marks it with
  /// the time of the commit.
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

  /// Of the rows in a range, or of all, without those with NULL in it: the first `limit` behind `last`, in the order of
  /// their keys.
  func keys(in range: Refresh.Range?, after last: [Value]?, limit: Int) throws -> [[Value]] {
    guard let rows = range.map({ self.rows(in: $0) }) ?? all else { return [] }
    let ordered = ordered(schema.key)
    var terms = schema.flags.contains(.nullableKey) ? schema.key.map { "\(names[$0]) IS NOT NULL" } : []
    if last != nil {
      terms.append("(\(ordered.joined(separator: ","))) > (\(ordered.map { _ in "?" }.joined(separator: ",")))")
    }
    let more = terms.joined(separator: " AND ")
    let condition =
      more.isEmpty ? rows.condition : rows.condition + (rows.condition.isEmpty ? " WHERE " : " AND ") + more
    return try database.query(
      """
      SELECT \(schema.key.map { names[$0] }.joined(separator: ",")) FROM \(table)\(condition)
      ORDER BY \(ordered.joined(separator: ",")) LIMIT \(limit)
      """, rows.values + (last ?? []))
  }

  func holdsRows() throws -> Bool {
    let rows = all
    return try database.first("SELECT 1 FROM \(table)\(rows.condition) LIMIT 1", rows.values) != nil
  }

  private var all: (condition: String, values: [Value]) {
    let terms = shares.map { "\($0.name.quotedName) = ?" }.joined(separator: " AND ")
    return (terms.isEmpty ? "" : " WHERE \(terms)", shares.map(\.value))
  }

  /// The columns that order the rows of this trail.
  private var rangeKey: [Int] {
    guard !shares.isEmpty else { return schema.key }
    return schema.key.filter { index in !shares.contains { $0.name.hasSameBytes(as: schema.columns[index].name) } }
  }

  /// Columns as they compare where the rows come from.
  private func ordered(_ key: [Int]) -> [String] {
    key.map { index in
      let collation = schema.columns[index].collation
      return names[index] + (collation.isEmpty ? "" : " COLLATE \(collation.quotedName)")
    }
  }

  /// The rows of a range, as a WHERE clause with the values of its parameters; nil where it has no bounds to go by.
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
