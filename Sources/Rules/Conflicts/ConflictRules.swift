import Changes

/// The rules that resolve conflicts of one table.
package struct ConflictRules: Equatable, Sendable {
  /// The unit in which conflicts are detected: a row or a column.
  package enum Tracking: String, Sendable, CaseIterable {
    /// Two concurrent changes of the same row are in conflict.
    case row
    /// Two concurrent changes are in conflict only if both wrote the same column.
    case column
  }

  /// The result for a row that one node deleted and another node updated.
  package enum DeleteRule: String, Sendable, CaseIterable {
    /// The later of the delete and the update wins.
    case newest
    /// The delete wins over the update, whichever is later.
    case deleteWins = "delete"
    /// The update wins over the delete, whichever is later.
    case updateWins = "update"
  }

  package var tracking: Tracking
  /// The rule for whole rows, and for columns without a rule of their own.
  package var rule: Rule
  /// The rules of single columns, by column index.
  package var columns: [Int: Rule]
  package var deletes: DeleteRule
  /// The node or trail that decides conflicts for all nodes. Until its decision arrives, all other nodes keep the
  /// latest version. Nil if each node resolves conflicts itself.
  @ByBytes package var decider: String? = nil
  /// The node or trail that alone may change existing rows (`insert-only`); nil if every node may.
  @ByBytes var owner: String? = nil

  package init(
    tracking: Tracking = .row, rule: Rule = .newest, columns: [Int: Rule] = [:], deletes: DeleteRule = .newest,
    decider: String? = nil
  ) {
    (self.tracking, self.rule, self.columns, self.deletes) = (tracking, rule, columns, deletes)
    self.decider = decider
  }

  func isTrackedByItself(_ column: Int) -> Bool { tracking == .column || columns[column] != nil }

  /// Returns the rules by which the node `target` resolves changes from `source`. Both parameters are names of trails
  /// or nodes. If a decider is configured, `newest` replaces the rules that wait for its decision.
  package func between(source: String, target: String) -> ConflictRules {
    guard let decider else { return resolved(source, target) }
    let isHere = Self.isOf(target, decider)
    var rules = self
    rules.rule = rule.untilDecided(isHere: isHere)
    rules.columns = columns.mapValues { $0.untilDecided(isHere: isHere) }
    return rules
  }

  /// Returns the rules by which the node `target` decides conflicts for all nodes. Nil if another node decides, or if
  /// no rule needs a decision.
  package func deciding(source: String, target: String) -> ConflictRules? {
    guard let decider, Self.isOf(target, decider) else { return nil }
    guard rule.isDecided || columns.values.contains(where: \.isDecided) else { return nil }
    return resolved(source, target)
  }

  private static func isOf(_ trail: String, _ decider: String) -> Bool {
    VersionStamp(clock: 0, origin: trail, number: 0).isOf(decider)
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

  /// Returns whether the nodes `source` and `target` end with the same rows.
  /// - Parameter back: The rules of the direction from `target` to `source`.
  package func agrees(with back: ConflictRules, source: String, target: String) -> Bool {
    if let decider, let other = back.decider, decider != other { return false }
    let (there, again) = (between(source: source, target: target), back.between(source: target, target: source))
    return there.tracking == again.tracking && there.deletes == again.deletes && there.rule == again.rule
      && there.columns == again.columns
  }

  // MARK: Conflicts that the operator resolves

  /// Returns whether apply stops at this conflict instead of resolving it.
  package func stops(at conflict: Conflict) -> Bool { governs(conflict) { $0 == .stop } }

  /// Returns whether the operator decides this conflict.
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
