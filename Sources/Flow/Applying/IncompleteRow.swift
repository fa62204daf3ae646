import Changes
import Trails

/// Returns the error `trail-damaged` for a row that is to be inserted and lacks a value.
///
/// Capture writes no such row, but a faulty or hostile peer may. Without this error, the missing values would silently
/// become NULL.
func incompleteRow(
  _ table: TableSchema, column: String, at position: Position, of trail: TrailName
) -> CairnError {
  CairnError(
    .trailDamaged,
    "a row to insert at \(position) of trail \(trail) has no value for column \(column) of table \(table.fullName)",
    hint: "run 'cairn trail verify \(trail)'", context: ["table": table.fullName])
}
