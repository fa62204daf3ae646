import Changes
import Configuring
import Conflicts
import Operating

// What is to be known of databases that are written to at several nodes.
extension ConfCheck {
  /// Names the tables of a captured database that draw keys which another node may draw too, where some apply writes to
  /// it. `end`: of the capture.
  func tellKeys(_ capture: Configuration.Capture, _ end: SourceEnd) throws {
    guard let database = configuration.database(capture.database), !database.sharesKeys,
      configuration.applies.contains(where: { $0.database == capture.database })
    else { return }
    let keys = try DrawnKeys(end).all(TablePatterns(capture.tables)).filter { !$0.isSeparated }
    guard !keys.isEmpty else { return }
    let names = keys.prefix(10).map { "\($0.fullName).\($0.column)" }.joined(separator: ", ")
    let more = keys.count > 10 ? " and \(keys.count - 10) more" : ""
    note(
      "another node that writes to the same tables would draw the same keys: \(names)\(more); 'cairn identity' separates them, or keys = \"shared\" in [database.\(database.name)] says that programs do"
    )
  }

  /// What the rules of an apply do not promise.
  func tellPromises(_ apply: Configuration.Apply) {
    let plan = apply.conflictPlan
    let parts = [plan.whole] + plan.tables.map(\.part)
    let rules = parts.flatMap { [$0.rule].compactMap { $0 } + $0.columns.sorted { $0.key < $1.key }.map(\.value) }
    var told: [ConflictRules.Rule] = []
    for rule in rules where rule.promise != .converges && !told.contains(rule) {
      told.append(rule)
      note("under the rule \(rule.text), \(rule.promise.explanation)")
    }
  }
}
