import Changes
import Configuring
import ControlAPI
import Endpoints
import Mapping

/// The tables that applies of this node may create in a database.
///
///     TablesToCome(configuration, in: "copy").mayHave("item")  // true if the source of an apply to it has `item`
package struct TablesToCome {
  /// Nil if some are unknown.
  private let tables: [TableSchema]?

  /// Connects to the databases whose trails are applied to `database`, and reads their tables.
  package init(_ configuration: Configuration, in database: String) {
    tables = Self.tables(configuration, in: database, without: [])
  }

  /// Returns whether an apply may create a table with this name. True if some of the tables are unknown.
  ///
  /// - Parameter name: A name or pattern, as in the setting `tables`.
  package func mayHave(_ name: String) -> Bool { tables.map { $0.contains { $0.matches(name) } } ?? true }

  // Nil for a trail of another node, a source that cannot be reached, or a rule that gives another name. `done`: the
  // databases whose tables the caller has already.
  private static func tables(_ configuration: Configuration, in name: String, without done: Set<NameKey>)
    -> [TableSchema]?
  {
    let done = done.union([name.nameKey])
    guard let engine = try? configuration.database(name)?.location().engine else { return nil }
    var found: [TableSchema] = []
    for apply in configuration.applies where apply.database == name {
      guard apply.rules.allSatisfy({ $0.to == nil }),
        let capture = configuration.captures.first(where: { configuration.trail(of: $0) == apply.trail })
      else { return nil }
      guard !done.contains(capture.database.nameKey) else { continue }
      guard let location = try? configuration.database(capture.database)?.location(),
        let source = try? SourceDatabase(location.canonical),
        let there = try? source.tables(TablePatterns(capture.tables)).map(\.schema),
        let further = tables(configuration, in: capture.database, without: done)
      else { return nil }
      let (captured, scope) = (TablePatterns(capture.tables), TargetScope(apply.tables))
      let relayed = further.filter { captured.includes(anyOf: $0.listedNames) }
      found += (there + relayed).compactMap { try? TableMapping($0, to: engine, names: apply.names).target }
        .filter { scope.verdict($0.namespace, $0.name, in: engine) == .allowed }
    }
    return found
  }
}
