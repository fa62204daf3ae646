/// The guarantee of a conflict rule at one apply: whether all nodes end with the same rows.
package struct TopologyPromise: Equatable, Sendable {
  package enum Verdict: Equatable, Sendable {
    /// All nodes have the same rows.
    case converges
    /// All nodes have the same rows if the rule of the opposite direction selects the version of the same node.
    case convergesIfWaysAgree
    /// One node decides, and its decision reaches all other nodes as a change.
    case decided(at: String)
    /// One node decides only for itself. Other nodes get its row with the row's next change, or with a refresh.
    case keptAtOneNode
    /// The operator decides at the given node, or at any node if nil.
    case asks(at: String?)
    case stops
    /// Several nodes decide, so their rows may differ.
    case severalDecide
    /// No trail of the decider is applied at this node, so its decisions never arrive.
    case deciderMissing(String)
    /// The deciding node has several trails that are applied at this node, so that the decider is ambiguous.
    case deciderUnclear(String, trails: [String])
  }

  package var rule: ConflictRules.Rule
  package var verdict: Verdict

  /// Computes the guarantee of a rule at one apply.
  /// - Parameter own: The trail of the database to which the apply writes.
  /// - Parameter peers: The trails that are applied to this database, from nodes at which applications write.
  package init(_ rule: ConflictRules.Rule, decider: String?, own: String, peers: [String]) {
    self.rule = rule
    let trails = [own] + peers
    let meant = decider.map { name in trails.filter { VersionStamp(clock: 0, origin: $0, number: 0).isOf(name) } }
    switch (rule, decider) {
    case (.stop, _): verdict = .stops
    case (.ask, _): verdict = .asks(at: decider)
    case (_, let decider?) where rule.isDecided:
      verdict =
        switch meant?.count {
        case 0: .deciderMissing(decider)
        case 1: .decided(at: decider)
        default: .deciderUnclear(decider, trails: meant ?? [])
        }
    case (.source, _), (.target, _): verdict = peers.count > 1 ? .severalDecide : .convergesIfWaysAgree
    case (.function, _): verdict = .severalDecide
    case (.insertOnly, _): verdict = .keptAtOneNode
    default: verdict = .converges
    }
  }

  /// Returns the guarantees of all rules of a plan, each once.
  package static func all(_ plan: ConflictPlan, own: String, peers: [String]) -> [TopologyPromise] {
    var found: [TopologyPromise] = []
    for part in [plan.whole] + plan.tables.map(\.part) {
      let columns = plan.whole.columns.merging(part.columns) { $1 }
      let rules = [part.rule ?? plan.whole.rule ?? .newest] + columns.sorted { $0.key < $1.key }.map(\.value)
      for rule in rules {
        let promise = TopologyPromise(rule, decider: part.decider ?? plan.whole.decider, own: own, peers: peers)
        if !found.contains(promise) { found.append(promise) }
      }
    }
    return found
  }

  /// A description of the guarantee in one line without a full stop.
  package var text: String {
    switch verdict {
    case .converges: "converges: \(ConflictRules.Rule.Promise.converges.explanation)"
    case .convergesIfWaysAgree: "converges if the ways agree: one names the other one's 'source' as 'target'"
    case .decided(let node): "decided at \(node), for all nodes: until its decision comes, they hold the latest version"
    case .keptAtOneNode: "not promised: \(ConflictRules.Rule.Promise.decidedAtOneNode.explanation)"
    case .asks(nil): "decided by a person: until then all nodes hold the latest version"
    case .asks(let node?): "decided by a person at \(node): until then all nodes hold the latest version"
    case .stops: "not promised: \(ConflictRules.Rule.Promise.stops.explanation)"
    case .severalDecide: "not promised: more than one node could decide"
    case .deciderMissing(let node): "not promised: no trail of \(node), which is to decide, is applied here"
    case .deciderUnclear(let node, let trails):
      "not promised: \(node), which is to decide, is the node of \(trails.joined(separator: " and "))"
    }
  }

  /// Advice how to change the configuration so that all nodes get the same rows; nil if there is none.
  package var remedy: String? {
    switch verdict {
    case .severalDecide:
      "say which node decides, decides = \"NODE\", the same in the applies of all nodes; or name the order of the nodes, \"priority:NODE,NODE\""
    case .deciderMissing: "name a node whose trail is applied here, or this one"
    case .deciderUnclear(_, let trails): "name one of the trails, such as decides = \"\(trails[0])\""
    default: nil
    }
  }
}
