import Changes
import Mapping

extension Expression {
  /// The direct subexpressions.
  var parts: [Expression] {
    switch self {
    case .literal, .parameter, .column, .clock: []
    case .function(let call): call.arguments
    case .unary(_, let a), .isNull(let a, _), .cast(let a, _), .collate(let a, _): [a]
    case .binary(_, let a, let b), .glob(let a, let b, _): [a, b]
    case .between(let a, let b, let c, _): [a, b, c]
    case .inList(let a, let list, _): [a] + list
    case .like(let a, let b, let c, _): [a, b] + (c.map { [$0] } ?? [])
    case .conditional(let a, let branches, let b):
      [a, b].compactMap { $0 } + branches.flatMap { [$0.when, $0.then] }
    }
  }

  /// Returns whether the expression has more than `depth` levels.
  func isDeeper(than depth: Int) -> Bool { depth <= 0 || parts.contains { $0.isDeeper(than: depth - 1) } }
}
