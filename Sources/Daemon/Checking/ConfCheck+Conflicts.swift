import Changes
import Configuring
import Conflicts
import Endpoints

// Facts about databases that several nodes write.
extension ConfCheck {
  /// Prints a notice about tables of a captured database whose generated keys may also be generated at another node.
  /// - Parameter end: The source of the capture.
  func tellKeys(_ capture: Configuration.Capture, _ end: SourceDatabase) throws {
    guard let database = configuration.database(capture.database), !database.sharesKeys,
      configuration.applies.contains(where: { $0.database == capture.database })
    else { return }
    let keys = try DrawnKeys(end).all(TablePatterns(capture.tables)).filter { !$0.isSeparated }
    guard !keys.isEmpty else { return }
    let names = keys.prefix(10).map { "\($0.fullName).\($0.column)" }.joined(separator: ", ")
    let more = keys.count > 10 ? " and \(keys.count - 10) more" : ""
    note(
      "another node that writes to the same tables would generate the same keys: \(names)\(more); 'cairn identity' separates them, or keys = \"shared\" in [database.\(database.name)] declares that applications do"
    )
  }

  /// Prints the guarantees of an apply's conflict rules, given the other two-way applies of the same database.
  func tellPromises(_ apply: Configuration.Apply) {
    guard let capture = configuration.captureBehind(apply) else { return }
    let peers = configuration.applies.filter {
      $0.database == apply.database && configuration.captureBehind($0) != nil
    }
    let own = configuration.trail(of: capture)
    for promise in TopologyPromise.all(apply.conflictPlan, own: own, peers: peers.map(\.trail)) {
      say(
        "conflicts, \(promise.rule.text): \(promise.text)",
        [
          ("event", .text("promise")), ("apply", .text(apply.name)), ("rule", .text(promise.rule.text)),
          ("text", .text(promise.text)),
        ])
      guard let remedy = promise.remedy else { continue }
      fail(
        CairnError(
          .confValue, "the rule \(promise.rule.text) for conflicts is \(promise.text)", hint: remedy, remedy: .badInput)
      )
    }
  }
}
