import Changes
import Mapping

// Checks that a query gives at most one row, or one order of rows.
extension Checker {
  /// Returns whether a query returns at most one row, whatever the tables contain.
  func isOneRow(_ select: Select) -> Bool {
    guard select.others.isEmpty else { return false }
    let core = select.first
    if !core.rows.isEmpty { return core.rows.count == 1 }
    if core.sources.isEmpty { return true }
    if core.groups.isEmpty, hasAggregate(core) { return true }
    if let limit = select.limit, limit == .literal(.integer(1)) { return isOrderedWhole(select) }
    guard core.groups.isEmpty, core.sources.count == 1, let source = source(core.sources[0], select) else {
      return false
    }
    return binds(source, core.condition?.terms ?? [], besides: [source])
  }

  private func hasAggregate(_ core: Select.Core) -> Bool {
    core.results.contains { result in
      if case .expression(let value, _) = result { value.hasAggregate } else { false }
    }
  }

  /// Returns whether equality conditions set every column of some key of `source` to a value that does not depend on
  /// the tables in `unknown`.
  private func binds(_ source: NamedSource, _ terms: [Expression], besides unknown: [NamedSource]) -> Bool {
    source.keys.contains { key in
      key.allSatisfy { column in
        terms.contains { term in
          guard case .binary(.equal, let a, let b) = term else { return false }
          return [(a, b), (b, a)].contains { column_, other in
            names(source, column, column_) && !unknown.contains { other.mayName($0) }
          }
        }
      }
    }
  }

  private func names(_ source: NamedSource, _ column: Int, _ expression: Expression) -> Bool {
    guard case .column(let table, let name) = expression, name.text.asciiLowercased == source.columns[column].name
    else {
      return false
    }
    return table == nil || table?.text.asciiLowercased == source.name
  }

  /// Returns whether the FROM clause of an UPDATE has at most one matching row for each updated row.
  func isOneRowEach(_ sources: [Select.Source], _ condition: Expression?) -> Bool {
    var unknown = sources.compactMap { source($0, Select()) }
    guard unknown.count == sources.count else { return false }
    let terms = sources.flatMap { $0.condition?.terms ?? [] } + (condition?.terms ?? [])
    while !unknown.isEmpty {
      guard let next = unknown.firstIndex(where: { binds($0, terms, besides: unknown) }) else { return false }
      unknown.remove(at: next)
    }
    return true
  }

  /// Returns whether ORDER BY names a complete key, so that the order is unique.
  func isOrderedWhole(_ select: Select) -> Bool {
    let core = select.first
    guard select.others.isEmpty, core.groups.isEmpty, !core.isDistinct, !hasAggregate(core), core.sources.count == 1,
      let source = source(core.sources[0], select)
    else { return false }
    let renamed = core.results.compactMap { result -> String? in
      guard case .expression(let value, let name?) = result, value != .column(table: nil, name: name) else {
        return nil
      }
      return name.text.asciiLowercased
    }
    return source.keys.contains { key in
      key.allSatisfy { column in
        !renamed.contains(source.columns[column].name)
          && select.order.contains { names(source, column, $0.expression) }
      }
    }
  }

  /// Returns whether no two rows of a query have the same values in all of these result columns.
  func isUnique(_ select: Select, _ columns: [Int]) -> Bool {
    let core = select.first
    guard select.others.isEmpty, core.groups.isEmpty, core.rows.isEmpty, core.sources.count == 1,
      let source = source(core.sources[0], select)
    else { return keys(of: select).contains { Set($0).isSubset(of: columns) } }
    var results: [Expression] = []
    for result in core.results {
      switch result {
      case .expression(let value, _): results.append(value)
      case .all: results += source.columns.map { .column(table: nil, name: $0.name.nameKey) }
      }
    }
    return source.keys.contains { key in
      key.allSatisfy { column in
        columns.contains { results.indices.contains($0) && names(source, column, results[$0]) }
      }
    }
  }

  /// Returns the sets of result columns that identify the rows of a query with GROUP BY; empty for any other query.
  func keys(of select: Select) -> [[Int]] {
    guard select.others.isEmpty, !select.first.groups.isEmpty else { return [] }
    var key: [Int] = []
    for group in select.first.groups {
      let place = select.first.results.firstIndex { result in
        if case .expression(let value, _) = result { value == group } else { false }
      }
      guard let place else { return [] }
      key.append(place)
    }
    return [key]
  }

  private func source(_ source: Select.Source, _ select: Select) -> NamedSource? {
    switch source.content {
    case .table(let table):
      let (name, key) = (table.text, table.text.asciiLowercased)
      if let common = select.common.last(where: { $0.name.asciiLowercased == key }) {
        return named(common.select, common.columns, source.alias ?? name)
      }
      if let common = names.common[key] {
        var named = common
        named.name = (source.alias ?? name).asciiLowercased
        return named
      }
      return tables(key).map { NamedSource($0, as: source.alias) }
    case .select(let inner): return named(inner, [], source.alias ?? "")
    }
  }

  private func named(_ select: Select, _ columns: [String], _ name: String) -> NamedSource? {
    var found = columns
    if found.isEmpty {
      for result in select.first.results {
        switch result {
        case .expression(.column(_, let own), nil): found.append(own.text)
        case .expression(_, let name): found.append(name?.text ?? "")
        case .all: return nil
        }
      }
    }
    return NamedSource(
      name: name.asciiLowercased, columns: found.map { .init(name: $0.asciiLowercased) }, keys: keys(of: select))
  }
}
