import Changes
import Mapping

/// A row of a target that another version replaces, to overturn a conflict or to carry out a decision.
///
/// The version is written as an application would write it, so capture replicates it.
struct OverriddenRow {
  var namespace: String
  var table: String
  var key: ConflictRow
  /// The row that the table is expected to have; nil: no row. If the table's row differs, an error is thrown, unless
  /// ``isForced``.
  var settled: ConflictRow?
  /// Whether the row in the table is replaced even if it is not the expected row.
  var isForced = false
  var scope = TargetScope()
  /// Returns the error for a row that is not as expected. The argument is a text that describes the difference.
  var stale: (String) -> CairnError

  /// Returns the columns of the version `row` that the table has; empty if `row` is nil.
  ///
  /// - Parameter isThere: Returns whether the table has a column of this name.
  func known(_ row: ConflictRow?, _ isThere: (String) -> Bool) throws -> [ConflictRow.Column] {
    guard let row else { return [] }
    if !isForced, let lost = row.columns.first(where: { !isThere($0.name) }) {
      throw stale("had a column \(lost.name), which the table lacks now")
    }
    return row.columns.filter { isThere($0.name) }
  }

  /// Throws `table-forbidden` if apply may not write the row's table.
  func checkTable(in engine: Engine) throws(CairnError) {
    let name = namespace.isEmpty ? table : "\(namespace).\(table)"
    switch scope.verdict(namespace, table, in: engine) {
    case .allowed: return
    case .leftOut:
      throw CairnError(
        .tableForbidden, "the conflict log names table \(name), which 'tables' of the apply does not include",
        hint: "add \"\(name)\" to 'tables' of the apply if it may write the table", remedy: .badInput,
        context: ["table": name])
    case .reserved: break
    }
    throw CairnError(
      .tableForbidden, "the conflict log names table \(name), which belongs to Cairn or to the database engine",
      hint: "no apply writes such a conflict: find out which program wrote to the conflict log",
      context: ["table": name])
  }

  func checkThere(_ isThere: Bool) throws {
    guard !isForced, isThere != (settled != nil) else { return }
    throw stale(isThere ? "has been inserted since" : "no longer exists")
  }

  func checkSame(_ changed: ConflictRow.Column?) throws {
    guard !isForced, let changed else { return }
    throw stale("has another value in column \(changed.name) since")
  }
}

extension ConflictRecord {
  func turned(force: Bool, within scope: TargetScope) -> OverriddenRow {
    OverriddenRow(namespace: namespace, table: table, key: key, settled: settled, isForced: force, scope: scope) {
      stale($0)
    }
  }
}
