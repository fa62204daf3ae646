import Changes
import Conflicts

extension LocalWritesPlan {
  /// What holds in a table of the target. A history takes every change as a row of its own, which meets none.
  /// Errors: `table-refused` where rows are to be told apart that have no key.
  /// `name`: as the error is to name the table; nil: its own.
  func writes(of table: TableSchema, _ treatment: TableTreatment?, called name: String? = nil) throws -> LocalWrites {
    let writes = writes(forTarget: table.plainName)
    guard writes.areSettled else { return writes }
    if treatment?.isHistory ?? false { return .stop }
    guard table.key.isEmpty || table.flags.contains(.wholeRow) else { return writes }
    throw Self.keyless(name ?? table.fullName, writes)
  }

  static func keyless(_ table: String, _ writes: LocalWrites) -> CairnError {
    CairnError(
      .tableRefused,
      "table \(table) has no key, so rows that others write to it cannot be told from the source's, which local_writes = \"\(writes.rawValue)\" takes",
      hint: "give it a key at the source, or a rule with local_writes = \"stop\" or \"refuse\"",
      context: ["table": table])
  }
}
