import Configuring
import Reshaping

extension ReshapeRule {
  /// Creates a rule from its configuration.
  package init(_ rule: TableRule) {
    self.init(from: rule.from)
    (to, filter) = (rule.to, rule.filter)
    columns = rule.columns?.map { Column($0.name, $0.expression, type: $0.type, isShare: $0.isShare) }
    switch rule.delete {
    case .apply: delete = .apply
    case .keep: delete = .keep
    case .mark(let column): delete = .mark(column: column)
    }
    mode = rule.mode == .history ? .history : .mirror
  }
}
