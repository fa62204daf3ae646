import Changes
import Mapping

extension Expression {
  /// The direct subexpressions, without queries.
  var parts: [Expression] {
    switch self {
    case .literal, .parameter, .column, .exists, .scalar, .clock: []
    case .function(let call): call.arguments
    case .unary(_, let a), .isNull(let a, _), .cast(let a, _), .collate(let a, _), .inSelect(let a, _, _): [a]
    case .binary(_, let a, let b), .glob(let a, let b, _): [a, b]
    case .between(let a, let b, let c, _): [a, b, c]
    case .inList(let a, let list, _): [a] + list
    case .like(let a, let b, let c, _): [a, b] + (c.map { [$0] } ?? [])
    case .conditional(let a, let branches, let b):
      [a, b].compactMap { $0 } + branches.flatMap { [$0.when, $0.then] }
    }
  }

  /// Returns whether the expression has more than `depth` levels, not counting those of subqueries.
  func isDeeper(than depth: Int) -> Bool { depth <= 0 || parts.contains { $0.isDeeper(than: depth - 1) } }

  /// Whether the expression contains an aggregate function.
  var hasAggregate: Bool {
    if case .function(let call) = self {
      let isOne =
        ["count", "sum"].contains(call.name) || (["min", "max"].contains(call.name) && call.arguments.count == 1)
      if isOne || call.isStar { return true }
    }
    return parts.contains(where: \.hasAggregate)
  }

  var hasQuery: Bool {
    switch self {
    case .inSelect, .exists, .scalar: true
    default: parts.contains(where: \.hasQuery)
    }
  }

  /// Returns whether the expression may name a column of a source. True for any subquery.
  func mayName(_ source: NamedSource) -> Bool {
    if case .column(let table, let name) = self {
      if let table { return table.text.asciiLowercased == source.name }
      return source.columns.contains { $0.name == name.text.asciiLowercased }
    }
    return hasQuery || parts.contains { $0.mayName(source) }
  }

  /// The operands of the expression's AND operators; only the expression itself if it is no AND.
  var terms: [Expression] {
    if case .binary(.and, let a, let b) = self { return a.terms + b.terms }
    return [self]
  }
}
