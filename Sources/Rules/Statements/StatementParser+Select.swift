import Changes

// Queries.
extension StatementParser {
  mutating func select() throws(Unreplayable) -> Select {
    try nested { parser throws(Unreplayable) in
      var select = Select()
      select.common = try parser.commonTables()
      select.first = try parser.core()
      while let operation = try parser.compound() { select.others.append((operation, try parser.core())) }
      if parser.take("ORDER") {
        try parser.expect("BY")
        select.order = try parser.list { parser throws(Unreplayable) in try parser.term() }
      }
      if parser.take("LIMIT") {
        select.limit = try parser.expression()
        if parser.take("OFFSET") { select.offset = try parser.expression() }
        if parser.isSymbol(",") { throw Unreplayable("its LIMIT has a comma") }
      }
      return select
    }
  }

  private mutating func compound() throws(Unreplayable) -> Select.Operator? {
    if take("UNION") { return take("ALL") ? .unionAll : .union }
    if take("INTERSECT") { return .intersect }
    if take("EXCEPT") { return .except }
    return nil
  }

  private mutating func term() throws(Unreplayable) -> Select.Term {
    var term = Select.Term(expression: try expression())
    if take("DESC") { term.isDescending = true } else { _ = take("ASC") }
    if take("NULLS") {
      if take("FIRST") {
        term.areNullsFirst = true
      } else {
        try expect("LAST")
        term.areNullsFirst = false
      }
    }
    return term
  }

  private mutating func core() throws(Unreplayable) -> Select.Core {
    var core = Select.Core()
    if take("VALUES") {
      core.rows = try list { parser throws(Unreplayable) in
        try parser.expect(symbol: "(")
        let row = try parser.list { parser throws(Unreplayable) in try parser.expression() }
        try parser.expect(symbol: ")")
        return row
      }
      guard core.rows.allSatisfy({ $0.count == core.rows[0].count }) else {
        throw Unreplayable("its rows are not alike")
      }
      return core
    }
    try expect("SELECT")
    if take("DISTINCT") { core.isDistinct = true } else { _ = take("ALL") }
    core.results = try list { parser throws(Unreplayable) in try parser.result() }
    if take("FROM") { core.sources = try sources() }
    if take("WHERE") { core.condition = try expression() }
    if take("GROUP") {
      try expect("BY")
      core.groups = try list { parser throws(Unreplayable) in try parser.expression() }
      if take("HAVING") { core.having = try expression() }
    }
    if word() == "WINDOW" { throw Unreplayable("it has window functions") }
    return core
  }

  private mutating func result() throws(Unreplayable) -> Select.Result {
    if take(symbol: "*") { return .all(of: nil) }
    if isSymbol(".", 1), isSymbol("*", 2) {
      let table = try name()
      at += 2
      return .all(of: table.nameKey)
    }
    let value = try expression()
    if take("AS") { return .expression(value, name: try name().nameKey) }
    return .expression(value, name: nameIfAny()?.nameKey)
  }

  mutating func sources() throws(Unreplayable) -> [Select.Source] {
    var all = [try source(.cross)]
    while true {
      switch word() {
      case "NATURAL", "FULL", "RIGHT": throw Unreplayable("\(word()) JOIN is not replayed")
      default: break
      }
      let join: Select.Source.Join
      if take(symbol: ",") || take("CROSS", "JOIN") {
        join = .cross
      } else if take("JOIN") || take("INNER", "JOIN") {
        join = .inner
      } else if take("LEFT", "JOIN") || take("LEFT", "OUTER", "JOIN") {
        join = .left
      } else {
        return all
      }
      var next = try source(join)
      if word() == "USING" { throw Unreplayable("USING is not replayed") }
      if take("ON") { next.condition = try expression() }
      all.append(next)
    }
  }

  private mutating func source(_ join: Select.Source.Join) throws(Unreplayable) -> Select.Source {
    var source: Select.Source
    if take(symbol: "(") {
      guard ["SELECT", "VALUES", "WITH"].contains(word()) else { throw Unreplayable("it joins in parentheses") }
      source = Select.Source(content: .select(try select()), join: join)
      try expect(symbol: ")")
    } else {
      source = Select.Source(content: .table(try tableName().nameKey), join: join)
      if isSymbol("(") { throw Unreplayable("it reads from a function") }
    }
    if take("AS") { source.alias = try name() } else { source.alias = nameIfAny() }
    if word() == "INDEXED" || (word() == "NOT" && word(1) == "INDEXED") { throw Unreplayable("it names an index") }
    return source
  }
}
