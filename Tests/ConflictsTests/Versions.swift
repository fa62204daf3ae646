import Changes
@testable import Conflicts

/// Columns: id, name, stock, note.
let columnCount = 4

func row(_ name: String, _ stock: Int64, _ note: String = "") -> RowVersion.Row {
  [.integer(1), .text(Array(name.utf8)), .integer(stock), .text(Array(note.utf8))]
}

extension RowVersion {
  /// `at`: its clock. `knowing`: the versions that its author had.
  static func by(_ node: String, _ number: UInt64 = 1, at clock: UInt64, knowing: [RowVersion] = [], _ write: Write)
    -> RowVersion
  {
    var seen: [String: UInt64] = [:]
    for version in knowing {
      seen.merge(version.seen, uniquingKeysWith: Swift.max)
      seen[version.stamp.origin, default: 0] = max(seen[version.stamp.origin, default: 0], version.stamp.number)
    }
    return RowVersion(VersionStamp(clock: clock, origin: node + ".db", number: number), seen: seen, write)
  }
}

extension [RowVersion] {
  /// Returns their outcome, which must be the same in whatever order they come.
  func settled(_ rules: ConflictRules) -> Set<[String]> {
    Set(
      permutations.map { versions in
        let settled = try? ConflictResolution(RowHistory(versions), rules, columnCount: columnCount)
        return settled?.row?.map { $0?.shown ?? "?" } ?? ["gone"]
      })
  }

  private var permutations: [[RowVersion]] {
    guard let first else { return [[]] }
    return Array(dropFirst()).permutations.flatMap { rest in
      (0...rest.count).map { Array(rest[..<$0]) + [first] + Array(rest[$0...]) }
    }
  }
}

func shown(_ row: RowVersion.Row) -> Set<[String]> { [row.map { $0?.shown ?? "?" }] }
