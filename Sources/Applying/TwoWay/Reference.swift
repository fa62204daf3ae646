import Changes
import Versions

/// A foreign key of the target.
struct Reference: Equatable, Sendable {
  /// The table that refers, as the target names it, and its columns.
  var child: String
  var columns: [String]
  /// The table that is referred to, and the columns there.
  var parent: String
  var references: [String]
}

extension RowNames {
  /// The name of the row to which a row refers; nil where it refers to none.
  func parent(_ reference: Reference, _ schema: TableSchema, _ row: [Value?]) -> RowName? {
    var values: [(column: String, value: Value)] = []
    for (column, referenced) in zip(reference.columns, reference.references) {
      guard let index = schema.columns.firstIndex(where: { $0.name.lowercased() == column.lowercased() }),
        let value = row[index], value != .null
      else { return nil }
      values.append((referenced.lowercased(), value))
    }
    var naming = RowNaming(table: reference.parent)
    for entry in values.sorted(by: { $0.column < $1.column }) { entry.value.withView { naming.add($0) } }
    return naming.name
  }
}
