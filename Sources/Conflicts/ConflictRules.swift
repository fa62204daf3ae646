import Changes

/// How conflicts of one table are settled.
package struct ConflictRules: Equatable, Sendable {
  /// What two versions of a row may both have changed without being in conflict.
  package enum Tracking: String, Sendable, CaseIterable {
    /// Nothing: the row is one thing.
    case row
    /// Different columns: both changes are kept.
    case column
  }

  /// What becomes of a row that one deleted and another one updated.
  package enum DeleteRule: String, Sendable, CaseIterable {
    /// The later of both wins.
    case newest
    /// It is gone.
    case deleteWins = "delete"
    /// It stays, as it was updated.
    case updateWins = "update"
  }

  package var tracking: Tracking
  /// Of rows, or of columns that have no rule of their own. One of those that ``Rule/isForRows``.
  package var rule: Rule
  /// By index of the column. Such a column is tracked by itself.
  package var columns: [Int: Rule]
  package var deletes: DeleteRule
  /// The node, or its trail, that decides for all others what is no function of the versions: until then they hold the
  /// latest. Nil: each one settles it.
  @ByBytes package var decider: String? = nil
  /// The node, or its trail, whose rows nobody else changes (`insert-only`); nil: all may.
  @ByBytes var owner: String? = nil

  package init(
    tracking: Tracking = .row, rule: Rule = .newest, columns: [Int: Rule] = [:], deletes: DeleteRule = .newest,
    decider: String? = nil
  ) {
    (self.tracking, self.rule, self.columns, self.deletes) = (tracking, rule, columns, deletes)
    self.decider = decider
  }

  func isTrackedByItself(_ column: Int) -> Bool { tracking == .column || columns[column] != nil }

  /// Under these rules on one way: `source` and `target` are the trails of the databases at its ends, or their nodes.
  /// What one node decides is settled by `newest` until it has.
  package func between(source: String, target: String) -> ConflictRules {
    guard let decider else { return resolved(source, target) }
    let isHere = Self.isOf(target, decider)
    var rules = self
    rules.rule = rule.untilDecided(isHere: isHere)
    rules.columns = columns.mapValues { $0.untilDecided(isHere: isHere) }
    return rules
  }

  /// By which rules the node at `target` decides for all others; nil: it does not.
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

  /// Whether nodes come to the same rows under these rules on the way from `source` to `target`, and under those of the
  /// way `back`: where both name the same winner for all that is settled by the ends of a way, or one node decides it.
  package func agrees(with back: ConflictRules, source: String, target: String) -> Bool {
    if let decider, let other = back.decider, decider != other { return false }
    let (there, again) = (between(source: source, target: target), back.between(source: target, target: source))
    return there.tracking == again.tracking && there.deletes == again.deletes && there.rule == again.rule
      && there.columns == again.columns
  }

  // MARK: Conflicts that a person settles

  /// Whether apply is to stop before the conflict.
  package func stops(at conflict: Conflict) -> Bool { governs(conflict) { $0 == .stop } }

  /// Whether a person is to decide it, while the row goes on as `newest` has it.
  package func asks(of conflict: Conflict) -> Bool { governs(conflict) { $0 == .ask } }

  /// The rules that settle the conflict, as the conf has them, for people.
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
