import Changes

/// The rules that resolve conflicts of one table.
package struct ConflictRules: Equatable, Sendable {
  /// The unit that two changes must both have written to be in conflict: a row or a column.
  package enum Tracking: String, Sendable, CaseIterable {
    /// Two changes of the same row are in conflict, whatever columns they wrote.
    case row
    /// Two changes are in conflict only if they wrote the same column; changes of different columns are both kept.
    case column
  }

  /// The result for a row that one node deleted and another one updated.
  package enum DeleteRule: String, Sendable, CaseIterable {
    /// The later of the delete and the update wins.
    case newest
    /// The delete wins over the update, whichever is later.
    case deleteWins = "delete"
    /// The update wins over the delete, whichever is later.
    case updateWins = "update"
  }

  package var tracking: Tracking
  /// The rule for whole rows, and for columns without a rule of their own. It is always a rule that can resolve whole
  /// rows.
  package var rule: Rule
  /// The rules of single columns, by index of the column. Changes of such a column are in conflict only with changes of
  /// the same column.
  package var columns: [Int: Rule]
  package var deletes: DeleteRule
  /// The node or trail that decides the conflicts that nodes would otherwise resolve differently. Until it has decided,
  /// all other nodes keep the latest version. If nil, each node resolves such conflicts itself.
  @ByBytes package var decider: String? = nil
  /// The node or trail whose rows no other node may change (`insert-only`); nil if every node may change all rows.
  @ByBytes var owner: String? = nil

  package init(
    tracking: Tracking = .row, rule: Rule = .newest, columns: [Int: Rule] = [:], deletes: DeleteRule = .newest,
    decider: String? = nil
  ) {
    (self.tracking, self.rule, self.columns, self.deletes) = (tracking, rule, columns, deletes)
    self.decider = decider
  }

  func isTrackedByItself(_ column: Int) -> Bool { tracking == .column || columns[column] != nil }

  /// Returns the rules for replication from `source` to `target`. Both are the names of trails, or of nodes. For
  /// conflicts that one node decides, `newest` applies until the decision.
  package func between(source: String, target: String) -> ConflictRules {
    guard let decider else { return resolved(source, target) }
    let isHere = Self.isOf(target, decider)
    var rules = self
    rules.rule = rule.untilDecided(isHere: isHere)
    rules.columns = columns.mapValues { $0.untilDecided(isHere: isHere) }
    return rules
  }

  /// Returns the rules by which the node at `target` decides conflicts for all nodes; nil if it is not the decider.
  package func deciding(source: String, target: String) -> ConflictRules? {
    guard let decider, Self.isOf(target, decider) else { return nil }
    guard rule.isDecided || columns.values.contains(where: \.isDecided) else { return nil }
    return resolved(source, target)
  }

  private static func isOf(_ trail: String, _ decider: String) -> Bool {
    Stamp(clock: 0, origin: trail, number: 0).isOf(decider)
  }

  private func resolved(_ source: String, _ target: String) -> ConflictRules {
    func resolved(_ rule: Rule) -> Rule {
      switch rule {
      case .source: .priority([source])
      case .target, .insertOnly: .priority([target])
      default: rule
      }
    }
    var rules = self
    if rule == .insertOnly { rules.owner = target }
    rules.rule = resolved(rule)
    rules.columns = columns.mapValues(resolved)
    return rules
  }

  /// Returns whether two nodes end with the same rows: with these rules from `source` to `target`, and `back` in the
  /// other direction. Both directions must name the same winner, or one node must decide.
  package func agrees(with back: ConflictRules, source: String, target: String) -> Bool {
    if let decider, let other = back.decider, decider != other { return false }
    let (there, again) = (between(source: source, target: target), back.between(source: target, target: source))
    return there.tracking == again.tracking && there.deletes == again.deletes && there.rule == again.rule
      && there.columns == again.columns
  }

  // MARK: Conflicts that the operator resolves

  /// Returns whether apply stops at this conflict instead of resolving it.
  package func stops(at conflict: Conflict) -> Bool { governs(conflict) { $0 == .stop } }

  /// Returns whether the operator decides this conflict. Until then, the row is resolved by `newest`.
  package func asks(of conflict: Conflict) -> Bool { governs(conflict) { $0 == .ask } }

  /// Returns the rules that resolve this conflict, as the configuration spells them.
  package func text(for conflict: Conflict) -> String {
    var texts: [String] = []
    for rule in governing(conflict) where !texts.contains(rule.text) { texts.append(rule.text) }
    return texts.joined(separator: ", ")
  }

  private func governs(_ conflict: Conflict, _ isMeant: (Rule) -> Bool) -> Bool {
    governing(conflict).contains(where: isMeant)
  }

  private func governing(_ conflict: Conflict) -> [Rule] {
    let rules = conflict.columns.map { columns[$0] ?? rule }
    return rules.isEmpty ? [rule] : rules
  }
}
