import Changes
import Trails

/// Returns the error `trail-damaged` for a row that is to be inserted and lacks a value.
///
/// A faulty or hostile peer may write such a row. Its missing values would become NULL.
func incompleteRow(
  _ table: TableSchema, column: String, at position: Position, of trail: TrailName, doing: String = "insert"
) -> CairnError {
  CairnError(
    .trailDamaged,
    "a row to \(doing) at \(position) of trail \(trail) has no value for column \(column) of table \(table.fullName)",
    hint: "run 'cairn trail verify \(trail)'", context: ["table": table.fullName])
}
