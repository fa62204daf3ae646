import Changes
import Mapping
import PostgresKit

// Labels of enums.
extension PostgresSchema {
  func makeLabels(_ change: PostgresSchemaChanges.Change, _ source: TableSchema) throws {
    for statement in PostgresAlteration(change.before, change.after, origins: change.source.origins).labels
    where try !PostgresAlteration.isLabel(statement) && tables.shape.reaches(labelOf: statement, in: change.after) {
      // Another table with this type may have renamed the label before.
      do {
        _ = try sink.attempt { try connection.run(statement, []) }
        areLabelsRenamed = true
      } catch let error as PostgresError where error.isOfShape {}
    }
    try ensureLabels(change.after, source)
  }

  /// Adds the missing enum labels of a table.
  ///
  /// - Throws: ``Ahead`` if the labels must be committed first: PostgreSQL cannot use a label in the transaction that
  ///   adds it. `schema-stopped` if apply may not add them, or if the name of a type is taken.
  func ensureLabels(_ mapped: TableSchema, _ source: TableSchema) throws {
    let refusal = SchemaRefusal(place: connection.place, phrases: ["use the types of table \(mapped.fullName)"])
    if let taken = try tables.shape.takenTypeName(in: mapped) {
      throw refusal.error(
        "\(taken) there is another kind of type, or a table", table: source.fullName,
        hint: "drop or rename \(taken) at the target")
    }
    let missing = try PostgresAlteration.missingLabels(of: mapped) { type in
      guard try connection.first("SELECT to_regtype($1)", [type]) != nil else { return nil }
      return try connection.query(
        "SELECT enumlabel FROM pg_enum WHERE enumtypid = to_regtype($1) ORDER BY enumsortorder", [type]
      ).compactMap { $0[0].map(NameKey.init) }
    }
    if let statement = try missing.first(where: { try !tables.shape.reaches(labelOf: $0, in: mapped) }) {
      throw refusal.error(
        "a label is missing, and apply may not add it, because tables that 'tables' does not include, or none, use the type",
        table: source.fullName, hint: "run at the target: \(statement)")
    }
    // The committed types lack the new names of labels, and an addition before them would come to a wrong place. Added in
    // the group, a label can be used only after it: apply then sends the transactions one by one.
    let fresh = areLabelsRenamed ? [] : missing.filter { !madeAhead.contains($0) }
    guard fresh.isEmpty else { throw Ahead(statements: fresh) }
    for statement in missing { try connection.run(statement, []) }
  }
}
