import Changes
import Configuring
import Endpoints
import Mapping

extension Configuration.Apply {
  /// The words for the option `tables` in messages.
  package var listName: String { "'tables' of [apply.\(name)]" }

  /// Returns the names in the option `tables` that match no target table.
  ///
  /// - Parameter captured: The captured tables, in the form that the rules give them.
  package func unmatched(in captured: [SourceDatabase.Table], to engine: Engine) -> [TablePatterns.Unmatched] {
    let targets = captured.compactMap { try? TableMapping($0.schema, to: engine, names: names).target }
    return TablePatterns(tables).unmatched(in: targets.flatMap(\.listedNames))
  }
}

extension Configuration {
  /// Returns whether applies of this node may bring a table with this name to the source of an apply's trail.
  package func mayCome(_ name: String, to apply: Apply) -> Bool {
    guard let capture = captures.first(where: { trail(of: $0) == apply.trail }),
      applies.contains(where: { $0.database == capture.database })
    else { return false }
    return TablesToCome(self, in: apply.database).mayHave(name)
  }
}
