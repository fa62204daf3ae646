import Changes
import PostgresKit

// The status entries of suspended tables.
extension TableTracker {
  func wait(of table: PostgresTable) -> TableWait {
    let refusal = table.refusal
    let what =
      session.tables[table.oid] == nil
      ? "is not captured" : "is no longer captured, and its rows at the targets stay as they are"
    let mend = refusal?.mend ?? ""
    return TableWait(
      table: table.displayName, code: .tableRefused,
      message: "\(session.place): table \(table.displayName) \(what): \(refusal?.reason ?? "")",
      hint: "\(mend.isEmpty ? "leave it out with 'tables'" : "run: \(mend)"); then it is copied")
  }

  func wait(of table: PostgresTable, _ error: CairnError) -> TableWait {
    let what =
      session.tables[table.oid] == nil
      ? "table \(table.displayName) is not captured"
      : "the publication no longer covers every change of table \(table.displayName)"
    return TableWait(
      table: table.displayName, code: error.code, message: "\(error.message); \(what)",
      hint: "\(error.hint); then it is copied")
  }
}
