import Changes
import Conflicts
import Mapping
import PostgresKit

/// A table of the trail, the matching table of a PostgreSQL target, and the statements that write its rows.
final class PostgresApplyTable {
  enum Insertion: Hashable {
    case strict
    /// An insert that does nothing if the table has a row with the same key.
    case keeping
    /// An insert that updates a row with the same key if there is one.
    case merging
  }

  enum Shape: Hashable {
    case insert(Insertion)
    case delete(checks: ColumnMask)
    case update(set: ColumnMask, checks: ColumnMask)
    /// An update of a GENERATED ALWAYS AS IDENTITY column, as a delete and an insert: UPDATE cannot set such a column.
    case replace(set: ColumnMask, checks: ColumnMask)
    /// A DELETE statement for many rows, with values passed as arrays of texts.
    case deleteMany(checks: ColumnMask)
    case updateMany(set: ColumnMask, checks: ColumnMask)
    /// A DELETE statement for just one of several rows that are equal in all columns.
    case deleteTwin(nulls: ColumnMask)
    case updateTwin(set: ColumnMask, nulls: ColumnMask)
    /// A DELETE statement for all rows that have the new row's values in the unique index `index`, except the row that
    /// is being written. `sparing` says which key identifies that row: the old key or the new key.
    case clear(index: Int, sparing: Sparing)
    case doubled(index: Int)
    case anyDoubled(index: Int)
    case probe(checks: ColumnMask)
    /// A DELETE statement for one row that returns the deleted row.
    case take(checks: ColumnMask)
  }

  enum Sparing: Hashable { case old, new }

  /// The table's definition as the trail has it, with all columns.
  let given: TableSchema
  /// For each column that apply writes, its index in the row images of the trail.
  let positions: [Int]
  let stateKey: String
  /// The definition of the source's table, reduced to the columns that apply writes.
  let source: TableSchema
  let mapped: TableSchema
  let target: PostgresTargetTable
  var state: PostgresApplyState.Table
  let localWrites: LocalWrites
  let goesBothWays: Bool
  private let parts: PostgresColumns
  let key: [Int]
  /// The target's unique index over the key columns; nil if there is none.
  let keyIndex: PostgresTargetTable.UniqueIndex?
  /// The positions of the deferrable indexes in the target table's list of unique indexes. PostgreSQL checks these
  /// indexes by triggers, which do not fire in apply's session.
  let uncheckedIndexes: [Int]
  /// The quoted names of the target-only columns whose values are saved while a chunk of a refresh replaces rows.
  var asideColumns: [String] = []
  /// Whether rows were written since the sequences of the table's identity columns were last advanced.
  var hasNewKeys = true
  /// Facts about the table that apply looks up only once.
  var lookups = PostgresTableLookups()
  /// The check, in each transaction of apply, that no untrusted role has replaced the table or changed its code. Nil if
  /// no untrusted role has the rights for this.
  var watch: OwnersWatch?
  private var statements: PostgresTableStatements

  /// Creates the object for one table of the trail and its table at the target.
  ///
  /// - Parameter part: The columns of the trail's table that the target has.
  /// - Parameter mapped: The table with these columns, converted for PostgreSQL.
  /// - Parameter number: A number that makes the names of the prepared statements unique.
  /// - Throws: `schema-stopped` if the target lacks a column of `mapped`.
  init(
    key stateKey: String, given: TableSchema, part: NextFittingSchema.Part, mapped: TableSchema,
    target: PostgresTargetTable, state: PostgresApplyState.Table, number: Int, localWrites: LocalWrites = .stop,
    goesBothWays: Bool = true
  ) throws(CairnError) {
    (self.localWrites, self.goesBothWays) = (localWrites, goesBothWays)
    (self.given, self.stateKey, positions) = (given, stateKey, part.positions)
    (self.target, self.state) = (target, state)
    statements = PostgresTableStatements(number: number)
    (source, self.mapped) = (part.schema, mapped)
    let source = part.schema
    parts = try PostgresColumns(
      source, mapped, target, isCreated: state.isCreated, keepsSpelling: goesBothWays)
    let columns = parts.columns
    let keyed = source.flags.contains(.wholeRow) ? [] : source.key
    keyIndex = keyed.isEmpty ? nil : target.key(over: keyed.map { columns[$0].name })
    // Without a unique index, the whole row is the key. For example, different values of SQLite may become one text.
    key = keyIndex == nil ? [] : keyed
    uncheckedIndexes = target.uniqueIndexes.indices.filter { !target.uniqueIndexes[$0].isImmediate }
  }

  var columns: [PostgresTargetTable.Column] { parts.columns }
  var converters: [PostgresText] { parts.converters }
  var alwaysIdentity: ColumnMask { parts.alwaysIdentity }
  var widened: ColumnMask { parts.widened }
  private var names: [String] { parts.names }

  var isWholeRow: Bool { key.isEmpty }

  /// The policy for a source row whose key the target's table already has. It keeps the target's row, overwrites it, or
  /// merges the source's row into it.
  var existing: ExistingRows { localWrites.areSettled && state.refreshing == nil ? .overwrite : state.existing }

  /// The collected changes of this table's rows, which apply sends to the server together.
  lazy var batch = RowBatch(self)
  /// Whether updates and deletes may be collected and sent together. False, for example, for a table without a key.
  lazy var isBatched =
    !isWholeRow && alwaysIdentity.isEmpty && !columns.isEmpty
    && !columns.contains { ["\"char\"", "regclass", "xml"].contains($0.castType) }
  lazy var keyMask = ColumnMask(key)
  var columnList: String { names.joined(separator: ",") }

  /// The positions of unique indexes in the target's list, except the key's index and indexes with a column that the
  /// trail lacks.
  var otherIndexes: [Int] {
    target.uniqueIndexes.indices.filter { index in
      let unique = target.uniqueIndexes[index]
      guard unique.name.nameKey != keyIndex?.name.nameKey else { return false }
      return unique.columns?.allSatisfy { name in columns.contains { $0.name.hasSameBytes(as: name) } } ?? true
    }
  }

  /// Whether an update that leaves the key unchanged may collide with another row, because the table has another unique
  /// index or is partitioned.
  lazy var mayCollide =
    target.isPartitioned || target.uniqueIndexes.contains { $0.name.nameKey != keyIndex?.name.nameKey }

  /// One-way: whether a unique index of the target may treat two different values of the source as equal.
  lazy var mayFold = !goesBothWays && !isWholeRow && target.uniqueIndexes.indices.contains(where: folds)

  /// Two-way: whether a row of the source may have a unique value, besides the key, that another row of the target has.
  /// One of the two then becomes a waiting row.
  ///
  /// False with deferrable constraints, whose violations PostgreSQL does not report to apply.
  lazy var isContested = goesBothWays && mayCollide && !isWholeRow && uncheckedIndexes.isEmpty

  /// Returns the columns of the unique index at this position in the target's list. Nil if the index has an expression,
  /// or a column that the trail lacks.
  func positions(of index: Int) -> [Int]? {
    guard let names = target.uniqueIndexes[index].columns else { return nil }
    let found = names.compactMap { name in columns.firstIndex { $0.name.hasSameBytes(as: name) } }
    return found.count == names.count ? found : nil
  }

  /// The columns of the deferrable unique indexes.
  lazy var uncheckedColumns: Set<Int> = Set(uncheckedIndexes.flatMap { positions(of: $0) ?? [] })

  // MARK: Statements

  func statement(_ shape: Shape) -> PostgresStatement {
    if let statement = statements.find(shape) { return statement }
    var builder = Builder(table: self)
    let sql = builder.sql(shape)
    return statements.add(shape, sql, builder.parameters)
  }

  /// Builds the SQL of a statement, and numbers its parameters.
  private struct Builder {
    let table: PostgresApplyTable
    var parameters: [PostgresStatement.Parameter] = []
    /// Whether each parameter is an array with the values of many rows. The table then has the alias `t`.
    var isMany = false

    var qualified: String { table.target.qualifiedName }
    var rows: String { table.target.rowsName }

    mutating func mark(_ parameter: PostgresStatement.Parameter) -> String {
      let index = parameters.firstIndex(of: parameter) ?? parameters.count
      if index == parameters.count { parameters.append(parameter) }
      let column =
        switch parameter {
        case .old(let column), .new(let column): column
        }
      let value = isMany ? "s.v\(index + 1)" : "$\(index + 1)"
      return "\(value)::\(table.columns[column].castType)"
    }

    private var many: String {
      let arrays = parameters.indices.map { "$\($0 + 1)" }.joined(separator: ",")
      let names = parameters.indices.map { "v\($0 + 1)" }.joined(separator: ",")
      return "unnest(\(arrays)) AS s(\(names))"
    }

    mutating func list(_ columns: some Sequence<Int>) -> String {
      columns.map { mark(.new($0)) }.joined(separator: ",")
    }

    mutating func assignments(_ set: ColumnMask) -> String {
      table.names.indices.filter { set.contains($0) }.map { "\(table.names[$0]) = \(mark(.new($0)))" }
        .joined(separator: ", ")
    }

    mutating func keyCondition(_ of: Sparing = .old, alias: String = "") -> String {
      table.key.map { index in
        let value = mark(of == .old ? .old(index) : .new(index))
        return "\(alias)\(table.names[index]) \(table.columns[index].equality) \(value)"
      }.joined(separator: " AND ")
    }

    mutating func condition(_ checks: ColumnMask) -> String {
      var terms = [keyCondition(alias: isMany ? "t." : "")]
      for index in table.names.indices where checks.contains(index) && !table.key.contains(index) {
        terms.append(check(index))
      }
      return terms.joined(separator: " AND ")
    }

    private mutating func check(_ index: Int) -> String {
      let (name, value) = ((isMany ? "t." : "") + table.names[index], mark(.old(index)))
      return table.columns[index].hasEquality
        ? "\(name) IS NOT DISTINCT FROM \(value)" : "\(name)::text IS NOT DISTINCT FROM (\(value))::text"
    }

    mutating func twin(_ nulls: ColumnMask) -> String {
      var terms: [String] = []
      for index in table.names.indices {
        let name = table.names[index]
        if nulls.contains(index) {
          terms.append("\(name) IS NULL")
        } else {
          let value = mark(.old(index))
          if table.columns[index].hasEquality { terms.append("\(name) = \(value)") }
          // The printed bytes are compared: the type's equality may be wider, and a cast to text may cut the value.
          terms.append("concat(\(name)) COLLATE \"C\" = concat(\(value)) COLLATE \"C\"")
        }
      }
      let place = table.target.isPartitioned ? "tableoid, ctid" : "ctid"
      let found = "SELECT \(place) FROM \(rows) WHERE \(terms.joined(separator: " AND ")) LIMIT 1"
      return table.target.isPartitioned ? "(tableoid, ctid) IN (\(found))" : "ctid = (\(found))"
    }

    mutating func sql(_ shape: Shape) -> String {
      let all = table.names.indices
      switch shape {
      case .insert(let insertion): return insert(insertion)
      case .delete(let checks): return "DELETE FROM \(rows) WHERE \(condition(checks))"
      case .take(let checks):
        let texts = table.names.map { "\($0)::text" }.joined(separator: ",")
        return "DELETE FROM \(rows) WHERE \(condition(checks)) RETURNING \(texts)"
      case .update(let set, let checks):
        let assignments = assignments(set)
        return "UPDATE \(rows) SET \(assignments) WHERE \(condition(checks))"
      case .deleteMany(let checks):
        isMany = true
        let condition = condition(checks)
        return "DELETE FROM \(rows) AS t USING \(many) WHERE \(condition)"
      case .updateMany(let set, let checks):
        isMany = true
        let assignments = assignments(set)
        let condition = condition(checks)
        return "UPDATE \(rows) AS t SET \(assignments) FROM \(many) WHERE \(condition)"
      case .replace(let set, let checks):
        let known = table.target.columns.filter { !$0.isGenerated }
        let values = known.map { column -> String in
          if let index = all.first(where: { table.columns[$0].name.hasSameBytes(as: column.name) }), set.contains(index)
          {
            return mark(.new(index))
          }
          return "o.\(column.name.quotedName)"
        }
        let list = known.map(\.name.quotedName).joined(separator: ",")
        return """
          WITH o AS (DELETE FROM \(rows) WHERE \(condition(checks)) RETURNING *)
          INSERT INTO \(qualified)(\(list)) OVERRIDING SYSTEM VALUE SELECT \(values.joined(separator: ",")) FROM o
          """
      case .deleteTwin(let nulls): return "DELETE FROM \(rows) WHERE \(twin(nulls))"
      case .updateTwin(let set, let nulls):
        let assignments = assignments(set)
        return "UPDATE \(rows) SET \(assignments) WHERE \(twin(nulls))"
      case .clear(let index, let sparing): return clear(table.target.uniqueIndexes[index], sparing)
      case .doubled(let index):
        let terms = (table.positions(of: index) ?? []).map {
          "\(table.names[$0]) \(table.columns[$0].equality) \(mark(.new($0)))"
        }
        return "SELECT 1 FROM \(rows) WHERE \(terms.joined(separator: " AND ")) HAVING count(*) > 1"
      case .anyDoubled(let index):
        let names = (table.positions(of: index) ?? []).map { table.names[$0] }
        let given = names.map { "\($0) IS NOT NULL" }.joined(separator: " AND ")
        let list = names.joined(separator: ",")
        return "SELECT \(list) FROM \(rows) WHERE \(given) GROUP BY \(list) HAVING count(*) > 1 LIMIT 1"
      case .probe(let checks):
        let key = keyCondition()
        let terms = all.filter { checks.contains($0) && !table.key.contains($0) }.map { check($0) }
        return "SELECT \(terms.isEmpty ? "true" : terms.joined(separator: ",")) FROM \(rows) WHERE \(key)"
      }
    }

    private mutating func insert(_ insertion: Insertion) -> String {
      let always = table.columns.contains { $0.identity == .always } ? " OVERRIDING SYSTEM VALUE" : ""
      let values = list(table.names.indices)
      let head = "INSERT INTO \(qualified)(\(table.columnList))\(always)"
      guard insertion != .strict, let index = table.keyIndex else { return "\(head) VALUES (\(values))" }
      let settable = table.names.indices.filter {
        !table.key.contains($0) && table.columns[$0].identity != .always
      }
      if index.isImmediate {
        let target = "(\(table.key.map { table.names[$0] }.joined(separator: ",")))"
        let set = settable.map { "\(table.names[$0]) = excluded.\(table.names[$0])" }.joined(separator: ", ")
        let action = insertion == .keeping || set.isEmpty ? "DO NOTHING" : "DO UPDATE SET \(set)"
        return "\(head) VALUES (\(values)) ON CONFLICT \(target) \(action)"
      }
      // ON CONFLICT does not accept a deferrable constraint.
      let key = keyCondition(.new)
      guard insertion == .merging, !settable.isEmpty else {
        return "\(head) SELECT \(values) WHERE NOT EXISTS (SELECT 1 FROM \(rows) WHERE \(key))"
      }
      let set = settable.map { "\(table.names[$0]) = \(mark(.new($0)))" }.joined(separator: ", ")
      return """
        WITH u AS (UPDATE \(rows) SET \(set) WHERE \(key) RETURNING 1)
        \(head) SELECT \(values) WHERE NOT EXISTS (SELECT 1 FROM u)
        """
    }

    private mutating func clear(_ unique: PostgresTargetTable.UniqueIndex, _ sparing: Sparing) -> String {
      var terms: [String] = []
      let row = unique.columns == nil || unique.predicate != nil ? "(SELECT \(newRow())) AS v" : ""
      for (position, term) in unique.terms.enumerated() {
        let index = unique.columns.flatMap { names in
          table.columns.firstIndex { $0.name.hasSameBytes(as: names[position]) }
        }
        let value = index.map { mark(.new($0)) } ?? "(SELECT \(term) FROM \(row))"
        let left = index == nil ? term : "x.\(term)"
        terms.append(unique.areNullsDistinct ? "\(left) = \(value)" : "\(left) IS NOT DISTINCT FROM \(value)")
      }
      if let predicate = unique.predicate {
        terms += ["(\(predicate))", "(SELECT \(predicate) FROM \(row))"]
      }
      if !table.key.isEmpty { terms.append("(\(keyCondition(sparing, alias: "x."))) IS NOT TRUE") }
      // Rows of other trails stay, so the statement that follows fails.
      for (index, text) in table.shares {
        let column = table.columns[index]
        terms.append("x.\(table.names[index]) \(column.equality) \(text.postgresLiteral)::\(column.castType)")
      }
      // Rows of this transaction are right. If one is in the way, the target treats two values of the source as equal.
      terms.append("age(x.xmin) > age(pg_current_xact_id()::xid)")
      return "DELETE FROM \(rows) AS x WHERE \(terms.joined(separator: " AND "))"
    }

    private mutating func newRow() -> String {
      table.target.columns.map { column in
        let index = table.columns.firstIndex { $0.name.hasSameBytes(as: column.name) }
        let value = index.map { mark(.new($0)) } ?? "NULL::\(column.castType)"
        return "\(value) AS \(column.name.quotedName)"
      }.joined(separator: ",")
    }
  }
}

extension TableSchema {
  /// Returns the definition with these columns only, and without foreign keys. The key must be among the columns.
  func keeping(_ kept: [Int]) -> TableSchema {
    guard kept.count < columns.count else { return self }
    var schema = self
    schema.columns = kept.map { columns[$0] }
    schema.uniques = uniques.compactMap { unique in
      let moved = unique.compactMap { kept.firstIndex(of: $0) }
      return moved.count == unique.count ? moved : nil
    }
    schema.foreignKeys = []
    return schema
  }
}
