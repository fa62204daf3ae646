import Conflicts

extension Synchronizer.Options {
  /// Errors: `rule`, with what is wrong about it.
  func conflictPlan() throws -> ConflictPlan {
    var tables: [String: [String: ConflictRules.Rule]] = [:]
    for (name, text) in columnConflicts {
      guard let dot = name.lastIndex(of: "."), dot > name.startIndex, name.index(after: dot) < name.endIndex else {
        throw refused("'\(name)' is no column", "write TABLE.COLUMN")
      }
      tables[String(name[..<dot]), default: [:]][String(name[name.index(after: dot)...])] = try rule(text, name)
    }
    let whole = try rule(conflict, "rows")
    guard whole.isForRows else { throw refused("'\(conflict)' is no rule for rows", "it may be one of a column") }
    return ConflictPlan(
      .init(rule: whole),
      tables: tables.sorted { $0.key < $1.key }.map { .init(from: $0.key, .init(columns: $0.value)) })
  }

  private func rule(_ text: String, _ name: String) throws -> ConflictRules.Rule {
    let rule: ConflictRules.Rule
    do { rule = try ConflictRules.Rule(text) } catch {
      throw refused("'\(text)' is no rule for \(name)", "there are \(ConflictRules.Rule.names.joined(separator: ", "))")
    }
    // Each way would have another one in mind.
    guard ![.source, .target, .insertOnly].contains(rule), !rule.needsDecider else {
      throw refused("'\(text)' says something else at each end", "use priority:NODE,NODE")
    }
    return rule
  }

  private func refused(_ what: String, _ hint: String) -> SynchronizationError {
    SynchronizationError(.rule, what, hint: hint)
  }
}
