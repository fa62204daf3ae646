import Changes
import Configuring
import ControlAPI
import Endpoints
import Trails

/// A copy of some tables for an apply that a row of one of them has stopped. The apply then skips the changes of these
/// tables until their copies begin in the trail.
///
///     let copy = try FailedCopy(apply, failed, ["item"])
///     try copy.check(at: target, trail)
///     // … request the copies …
///     try copy.mark(at: target, trail, ["item"])
struct FailedCopy {
  private let apply: Configuration.Apply
  private let row: StoppedRow
  private let tables: TablePatterns

  /// - Parameter names: The names or patterns of tables that the operator gave.
  /// - Throws: The error of the apply, if it is not about one row, or if the apply is part of two-way replication.
  init(
    _ apply: Configuration.Apply, _ failed: NodeStatus.Worker, _ names: [String], goesBothWays: Bool
  ) throws(CairnError) {
    guard let row = failed.problem?.row, !goesBothWays else {
      let problem = failed.problem
      throw CairnError(
        problem.flatMap { ErrorCode(rawValue: $0.code) } ?? .bug,
        "\(failed.name) has failed, so it cannot copy: \(problem?.message ?? "")",
        hint:
          "run 'cairn copy \(apply.name)' without --tables to copy everything; or remove the cause and run 'cairn start \(failed.name)' first",
        remedy: .badInput)
    }
    (self.apply, self.row) = (apply, row)
    tables = Self.patterns(names, apply)
  }

  /// Throws `table-missing` if the copy would not include the table whose row has stopped the apply.
  func check(at target: TargetDatabase, _ trail: TrailName) throws {
    let all = try target.namedTables(of: trail)
    guard !all.contains(where: { Self.isMeant($0, tables) && $0.contains { Self.plain($0) == Self.plain(row.table) } })
    else { return }
    let near = all.isEmpty ? "" : "there are \(all.map { Self.plain($0[0]) }.sorted().joined(separator: ", ")); "
    throw CairnError(
      .tableMissing,
      "apply.\(apply.name) is stopped at a row of table \(row.table), which --tables does not include",
      hint: "\(near)run 'cairn copy \(apply.name) --tables \(Self.plain(row.table).shellWord)'", remedy: .badInput)
  }

  /// Makes the apply skip the changes of the tables until their copies begin. The copies must have been requested, so
  /// that they come after the row in the trail.
  ///
  /// - Parameter names: The names or patterns of the tables whose copies were requested.
  func mark(at target: TargetDatabase, _ trail: TrailName, _ names: [String]) throws {
    let asked = Self.patterns(names, apply)
    try target.expectRefresh(of: trail) { Self.isMeant($0, asked) }
  }

  // A table may be given by its name at the source or at the target.
  private static func patterns(_ names: [String], _ apply: Configuration.Apply) -> TablePatterns {
    TablePatterns(names + apply.rules.filter { names.contains($0.from) }.compactMap(\.to))
  }

  private static func isMeant(_ names: [String], _ tables: TablePatterns) -> Bool {
    names.contains { tables.includes($0) || tables.includes(plain($0)) }
  }

  /// Returns a table's name without the schema `public`, in lower case.
  static func plain(_ name: String) -> String {
    let (name, bare) = (name.asciiLowercased, "public.")
    return name.utf8.starts(with: bare.utf8) ? String(name.dropFirst(bare.count)) : name
  }
}
