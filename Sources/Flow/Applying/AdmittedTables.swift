import Changes
import Mapping

/// The choice of the tables that an apply writes, by their names at the source and at the target.
///
///     let admitted = AdmittedTables(TargetScope(), names: .fold)
package struct AdmittedTables: Equatable, Sendable {
  private let scope: TargetScope
  private let sourceTables: TablePatterns
  private let names: NamePolicy

  /// Creates the choice of the tables that an apply writes.
  ///
  /// - Parameter scope: The tables of the target that the trail may write.
  /// - Parameter sourceTables: The tables of the source that the target receives.
  package init(
    _ scope: TargetScope, of sourceTables: TablePatterns = TablePatterns(), names: NamePolicy = ApplyOptions().names
  ) { (self.scope, self.sourceTables, self.names) = (scope, sourceTables, names) }

  /// Returns whether the trail may write a table: `allowed`, `reserved` (a name of Cairn or the engine), or `leftOut`
  /// by the conf.
  ///
  /// - Parameter schema: The source's table, with the name that a rule gives it at the target.
  func verdict(_ schema: TableSchema, in target: Engine) -> TargetScope.Verdict {
    let place = TableMapping.targetPlace(of: schema, in: target, names: names)
    let verdict = scope.verdict(place.namespace, place.name, in: target)
    return verdict == .allowed && !sourceTables.includes(schema.name) ? .leftOut : verdict
  }
}

/// Checks, while a trail is read, whether an apply writes the table of a row to its target.
final class AdmittedRows {
  private let tables: AdmittedTables?
  private let target: Engine
  /// A cache: whether the trail may write a table that a foreign key references, by engine, schema and name.
  private var referenced: [NameKey: Bool] = [:]
  private var referencedBudget = RowBudget(rows: 1000, bytes: 1 << 20)
  /// The size of the names in the cache, in bytes.
  var rememberedBytes: Int { referencedBudget.bytes }
  private var last: (namespace: String, name: String, engine: Engine, isAdmitted: Bool)?

  /// Creates the check for the rows of one trail.
  ///
  /// - Parameter tables: The tables that apply writes. Nil: the tables are not known, so the check excludes all rows.
  init(_ tables: AdmittedTables?, in target: Engine) { (self.tables, self.target) = (tables, target) }

  func includes(_ schema: TableSchema) -> Bool {
    if let last, last.engine == schema.engine, last.name.hasSameBytes(as: schema.name),
      last.namespace.hasSameBytes(as: schema.namespace)
    {
      return last.isAdmitted
    }
    let isAdmitted = tables?.verdict(schema, in: target) == .allowed
    last = (schema.namespace, schema.name, schema.engine, isAdmitted)
    return isAdmitted
  }

  /// Returns whether the trail may write a table that a foreign key of a table in the trail references.
  func includes(referenced schema: TableSchema) -> Bool {
    let key = NameKey("\(schema.engine) \(schema.namespace)\u{0}\(schema.name)")
    if let known = referenced[key] { return known }
    let isAdmitted = tables?.verdict(schema, in: target) == .allowed
    if !referencedBudget.take(key.text.utf8.count) {
      referenced.removeAll()
      referencedBudget.clear()
      _ = referencedBudget.take(key.text.utf8.count)
    }
    referenced[key] = isAdmitted
    return isAdmitted
  }
}
