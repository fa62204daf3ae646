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

/// A row that another one needs, and that somebody may have deleted who did not know of that.
struct NeededRow {
  let reference: Reference
  let name: RowName
  /// Of the columns that are referred to, in the target's form or the trail's.
  let values: [Value]
}

extension RowNames {
  /// What a row refers to; nil where it refers to nothing.
  func parent(_ reference: Reference, _ schema: TableSchema, _ row: [Value?]) -> NeededRow? {
    var values: [(column: String, value: Value)] = []
    for (column, referenced) in zip(reference.columns, reference.references) {
      guard let index = schema.columns.firstIndex(where: { $0.name.lowercased() == column.lowercased() }),
        let value = row[index], value != .null
      else { return nil }
      values.append((referenced, value))
    }
    var naming = RowNaming(table: reference.parent)
    for entry in values.sorted(by: { $0.column.lowercased() < $1.column.lowercased() }) {
      entry.value.withView { naming.add($0) }
    }
    return NeededRow(reference: reference, name: naming.name, values: values.map(\.value))
  }
}
