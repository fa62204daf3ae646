import Changes
import Conflicts

extension LocalWritesPlan {
  /// Returns the setting `local_writes` for a table: what happens to rows that applications write at the target.
  ///
  /// - Parameter name: The name of the table in the error; nil: `table`'s own name.
  /// - Throws: `table-refused` if the policy needs a key and the table has none.
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
      "table \(table) has no key, so rows that other programs write cannot be distinguished from the source's rows, as local_writes = \"\(writes.rawValue)\" requires",
      hint: "give it a key at the source, or a rule with local_writes = \"stop\" or \"refuse\"",
      context: ["table": table])
  }
}
