import Changes
import Mapping
import PostgresKit

/// The check that the target's table under the name of a new table of the source is the one that the operator means.
///
/// ```
/// try TakenName(changes: changes).check(known, source, refusal)
/// ```
struct TakenName {
  let changes: PostgresSchemaChanges

  /// Throws `schema-stopped` for a new table of the source if an untrusted role made the target's table under its name.
  ///
  /// The operator may have made it at the first start, or name it in a list. Then it is the one that is meant.
  func check(_ known: PostgresApplyState.Table, _ source: TableSchema, _ refusal: SchemaRefusal) throws {
    let scope = changes.scope
    let isNamed =
      scope.names(known.schema, known.name)
      || scope.listed?.names(anyOf: TableSchema.names(source.namespace, source.name)) ?? false
    let isAdopted = changes.tables.values.contains {
      !$0.isCreated && $0.schema.hasSameBytes(as: known.schema) && $0.name.hasSameBytes(as: known.name)
    }
    guard !isNamed, !isAdopted, let owner = try changes.state.stranger(owning: known) else { return }
    var refusal = refusal
    refusal.statements = []
    let name = "\(known.schema.quotedName).\(known.name.quotedName)"
    throw refusal.error(
      "the table \(name) there belongs to role \(owner), which could read and change the rows", table: source.fullName,
      hint:
        "if you trust role \(owner), name the table itself in 'tables', or run at the target: ALTER TABLE \(name) OWNER TO CURRENT_USER, as the role of apply or a superuser; else drop or rename the table"
    )
  }
}
