import Changes

/// The reason why the target's column cannot hold a value, such as `it is not a date`.
package struct Misfit: Error, Equatable {
  package let reason: String
  package init(_ reason: String) { self.reason = reason }
}

/// The treatment of a misfit by apply.
package enum MisfitPolicy: String, Sendable, CaseIterable {
  /// Apply stops with an error that names the value.
  case stop
  /// The value becomes NULL. In a column that is NOT NULL or in the key, apply stops as with ``stop``.
  case null
  /// The column's type becomes text, if Cairn created the table and the column is not in the key. Otherwise apply stops
  /// as with ``stop``.
  case widen
}

/// The misfit policies of all columns: `stop`, or `stop,orders.note=null,items.*=widen`. An entry without a pattern
/// applies to all columns. The last matching entry wins. Case does not matter.
///
///     let policies = try MisfitPolicies(parsing: "stop,orders.note=null")
///     policies.policy(table: "orders", column: "note")   // .null
package struct MisfitPolicies: Equatable, Sendable {
  private struct Rule: Equatable {
    let columns: TablePatterns
    let policy: MisfitPolicy
  }
  private var general = MisfitPolicy.stop
  private var rules: [Rule] = []

  package init() {}

  /// Parses a list of policies.
  /// - Throws: `usage` for an invalid text.
  package init(parsing text: String) throws(CairnError) {
    for part in text.split(at: ",", omittingEmpty: false) {
      let sides = part.split(at: "=", omittingEmpty: false).map { side in
        let bytes = side.utf8.drop { $0 == UInt8(ascii: " ") }.reversed().drop { $0 == UInt8(ascii: " ") }.reversed()
        return String(decoding: Array(bytes), as: UTF8.self)
      }
      guard let last = sides.last, let policy = MisfitPolicy(rawValue: last), sides.count <= 2 else {
        throw CairnError(
          .usage, "'\(part)' is not a policy for values that do not fit",
          hint: "use stop, null or widen, or table.column=null for one column, separated by commas", remedy: .badInput)
      }
      guard sides.count == 2 else {
        general = policy
        continue
      }
      guard sides[0].has("."), !sides[0].hasPrefix("!") else {
        throw CairnError(
          .usage, "'\(sides[0])' in '\(part)' does not name a column",
          hint: "write table.column, or table.* for all columns of a table", remedy: .badInput)
      }
      rules.append(Rule(columns: TablePatterns([sides[0]]), policy: policy))
    }
  }

  package func policy(table: String, column: String) -> MisfitPolicy {
    rules.last { $0.columns.includes("\(table).\(column)") }?.policy ?? general
  }
}
