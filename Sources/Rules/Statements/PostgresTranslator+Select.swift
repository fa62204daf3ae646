import Changes
import Mapping

// Queries.
extension PostgresTranslator {
  /// The table of an INSERT ... SELECT, and its columns that get the results of the query.
  struct Places {
    let table: StatementTable
    let columns: [Int]
  }

  /// Translates a query. Returns the SQL and the types of its columns.
  ///
  /// - Parameter places: The columns that get the results, if this is the query of an INSERT; nil for any other query.
  mutating func query(_ select: Select, as places: Places?) throws(Unreplayable) -> (
    sql: String, columns: [NamedColumn]
  ) {
    let outer = names.common
    defer { names.common = outer }
    var sql = try common(select.common)
    let isSet = select.others.contains { $0.0 != .unionAll }
    let first = try core(select.first, places, order: select.order, isSet: isSet)
    sql += first.sql
    for (operation, other) in select.others {
      let next = try core(other, places, order: [], isSet: isSet)
      guard places != nil || next.columns.map(\.value) == first.columns.map(\.value) else {
        throw refused("\(operation.rawValue) of different types")
      }
      sql = "(\(sql)) \(operation.rawValue) (\(next.sql))"
    }
    sql += first.order
    for (word, bound) in [("LIMIT", select.limit), ("OFFSET", select.offset)] {
      guard let bound else { continue }
      guard case .integer(let number)? = try checker.constant(bound), number >= 0 else { throw refused(word) }
      sql += " \(word) \(number)"
    }
    return (sql, first.columns)
  }

  /// Translates a WITH clause; empty if there are no common tables.
  mutating func common(_ tables: [CommonTable]) throws(Unreplayable) -> String {
    guard !tables.isEmpty else { return "" }
    var parts: [String] = []
    for table in tables {
      var (sql, columns) = try query(table.select, as: nil)
      for (index, name) in table.columns.enumerated() { columns[index].name = name.asciiLowercased }
      let name = table.name.asciiLowercased
      for index in columns.indices { columns[index].sql = "c\(index + 1)" }
      let list = columns.map(\.sql).joined(separator: ", ")
      parts.append("\(name.quotedName)(\(list)) AS (\(sql))")
      names.common[name] = NamedSource(name: name, columns: columns)
    }
    return "WITH \(parts.joined(separator: ", ")) "
  }

  private mutating func core(_ core: Select.Core, _ places: Places?, order: [Select.Term], isSet: Bool)
    throws(Unreplayable) -> (sql: String, order: String, columns: [NamedColumn])
  {
    if !core.rows.isEmpty { return try values(core.rows, places) }
    names.levels.append([])
    defer { names.levels.removeLast() }
    var sql = "SELECT \(core.isDistinct ? "DISTINCT " : "")"
    let from = try sources(core.sources)
    var results: [String] = []
    var columns: [NamedColumn] = []
    for (name, piece) in try self.results(core) {
      let result = try place(piece, places, results.count, isCompared: core.isDistinct || isSet)
      results.append(result.sql)
      columns.append(NamedColumn(name: name, value: result.value))
    }
    sql += results.joined(separator: ", ")
    if !from.isEmpty { sql += " FROM \(from)" }
    if let condition = core.condition { sql += " WHERE \(try self.condition(condition))" }
    if !core.groups.isEmpty {
      var groups: [String] = []
      for group in core.groups { groups.append(try piece(group).sql) }
      sql += " GROUP BY \(groups.joined(separator: ", "))"
      if let having = core.having { sql += " HAVING \(try condition(having))" }
    }
    return (sql, try self.order(order, core), columns)
  }

  private mutating func results(_ core: Select.Core) throws(Unreplayable) -> [(String, PostgresPiece)] {
    var all: [(String, PostgresPiece)] = []
    for result in core.results {
      switch result {
      case .expression(let value, let name):
        let own = if case .column(_, let own) = value { own.text } else { "" }
        all.append(((name?.text ?? own).asciiLowercased, try piece(value)))
      case .all(let table):
        for source in names.levels[names.levels.count - 1]
        where table == nil || source.name == table?.text.asciiLowercased {
          for column in source.columns {
            guard let value = column.value else { throw refused("column \(column.name)") }
            all.append((column.name, PostgresPiece("\(source.name.quotedName).\(column.sql)", value, isColumn: true)))
          }
        }
      }
    }
    return all
  }

  /// Returns the SQL for one result of a query. In the query of an INSERT, the SQL converts the result to the form that
  /// the written column stores.
  private func place(_ piece: PostgresPiece, _ places: Places?, _ index: Int, isCompared: Bool)
    throws(Unreplayable) -> (sql: String, value: PostgresValue?)
  {
    guard let places else { return (piece.sql, piece.value) }
    let sql = try assigned(piece, to: places.columns[index], of: places.table)
    // DISTINCT compares rows before they are converted.
    let isSafe = piece.constant != nil || sql == piece.sql || piece.value == .integer || piece.value == .text
    if isCompared, !isSafe { throw refused("DISTINCT") }
    return (sql, piece.value)
  }

  private mutating func values(_ rows: [[Expression]], _ places: Places?) throws(Unreplayable) -> (
    sql: String, order: String, columns: [NamedColumn]
  ) {
    var texts: [String] = []
    var columns: [NamedColumn] = []
    for (number, row) in rows.enumerated() {
      var values: [String] = []
      for (index, value) in row.enumerated() {
        let result = try place(try piece(value), places, index, isCompared: false)
        values.append(result.sql)
        if number == 0 {
          columns.append(NamedColumn(name: "column\(index + 1)", value: result.value))
        } else if places == nil, columns[index].value != result.value {
          throw refused("VALUES of different types")
        }
      }
      texts.append("(\(values.joined(separator: ", ")))")
    }
    return ("VALUES \(texts.joined(separator: ", "))", "", columns)
  }

  /// Translates ORDER BY. As in SQLite, NULL counts as less than all other values, unless NULLS FIRST or NULLS LAST is
  /// given.
  private mutating func order(_ terms: [Select.Term], _ core: Select.Core) throws(Unreplayable) -> String {
    guard !terms.isEmpty else { return "" }
    var parts: [String] = []
    for term in terms {
      var expression = term.expression
      for case .expression(let value, let name?) in core.results where expression == .column(table: nil, name: name) {
        expression = value
      }
      let value = number(try piece(expression))
      guard let kind = value.value, value.constant == nil, Self.isComparable(kind) else { throw refused("ORDER BY") }
      let isFirst = term.areNullsFirst ?? !term.isDescending
      parts.append(
        value.sql + (kind == .text ? " COLLATE \"C\"" : "") + (term.isDescending ? " DESC" : "")
          + (isFirst ? " NULLS FIRST" : " NULLS LAST"))
    }
    return " ORDER BY \(parts.joined(separator: ", "))"
  }

  // MARK: FROM

  mutating func sources(_ sources: [Select.Source]) throws(Unreplayable) -> String {
    var sql = ""
    for (index, source) in sources.enumerated() {
      let text = try add(source)
      guard index > 0 else {
        sql = text
        continue
      }
      if let condition = source.condition {
        sql += " \(source.join == .left ? "LEFT JOIN" : "JOIN") \(text) ON \(try self.condition(condition))"
      } else if source.join == .left {
        sql += " LEFT JOIN \(text) ON true"
      } else {
        sql += " CROSS JOIN \(text)"
      }
    }
    return sql
  }

  /// Translates the FROM clause of an UPDATE. Returns the list of tables and, as separate texts, the join conditions.
  mutating func besides(_ sources: [Select.Source]) throws(Unreplayable) -> (sql: String, conditions: [String]) {
    guard !sources.contains(where: { $0.join == .left }) else { throw refused("LEFT JOIN in an UPDATE") }
    var (texts, conditions): ([String], [String]) = ([], [])
    for source in sources { texts.append(try add(source)) }
    for condition in sources.compactMap(\.condition) { conditions.append(try self.condition(condition)) }
    return (texts.joined(separator: ", "), conditions)
  }

  private mutating func add(_ source: Select.Source) throws(Unreplayable) -> String {
    let level = names.levels.count - 1
    switch source.content {
    case .table(let table):
      let (name, key) = (table.text, table.text.asciiLowercased)
      let alias = source.alias?.asciiLowercased ?? key
      if var common = names.common[key] {
        common.name = alias
        names.levels[level].append(common)
        return "\(key.quotedName) AS \(alias.quotedName)"
      }
      guard let table = tables(key), let side = table.postgres else {
        throw Unreplayable("table \(name) is not one that the target has as it is")
      }
      names.levels[level].append(PostgresTranslator.named(table, as: alias))
      return "\(side.rowsName) AS \(alias.quotedName)"
    case .select(let select):
      let beside = names.levels[level]
      names.levels[level] = []
      var (sql, columns) = try query(select, as: nil)
      names.levels[level] = beside
      for index in columns.indices { columns[index].sql = "c\(index + 1)" }
      // A query without a name of its own still needs one here.
      let alias = source.alias?.asciiLowercased ?? "cairn \(level) \(beside.count)"
      names.levels[level].append(NamedSource(name: alias, columns: columns))
      return "(\(sql)) AS \(alias.quotedName)(\(columns.map(\.sql).joined(separator: ", ")))"
    }
  }

  static func named(_ table: StatementTable, as alias: String?) -> NamedSource {
    var source = NamedSource(table, as: alias)
    for index in source.columns.indices {
      source.columns[index].sql = table.postgres?.columns[index].name.quotedName ?? ""
    }
    return source
  }
}
