import Changes
import Trails

/// Returns the error for a row to insert that lacks a value, `trail-damaged`.
///
/// No capture writes such a row, but another node may: its columns would become NULL without a word.
func incompleteRow(
  _ table: TableSchema, column: String, at position: Position, of trail: TrailName
) -> CairnError {
  CairnError(
    .trailDamaged,
    "a row to insert at \(position) of trail \(trail) has no value for column \(column) of table \(table.fullName)",
    hint: "run 'cairn trail verify \(trail)'", context: ["table": table.fullName])
}
