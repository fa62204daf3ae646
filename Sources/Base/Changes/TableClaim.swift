/// The rows of a target's table that belong to one trail. The claims of two trails must not overlap.
///
///     TableClaim(text: "shop=7").isApart(from: TableClaim(text: "shop=8"))   // true
package struct TableClaim: Equatable, Sendable {
  private static let history = "history"

  /// The claim of a suspended table to which apply has not written any rows yet.
  package static let none = TableClaim(text: "-")

  @ByBytes package private(set) var text: String

  package init(text: String) { self.text = text }

  /// Creates the claim of a table from the table's rule.
  package init(_ schema: TableSchema) {
    let treatment = schema.treatment ?? .init()
    if treatment.isHistory {
      text = Self.history
    } else {
      text = NameList.text(treatment.shares.map { "\($0.column.asciiLowercased)=\($0.value.claimed)" })
    }
  }

  package var isOfHistory: Bool { text == Self.history }

  private var shares: [[UInt8]: [UInt8]] {
    var shares: [[UInt8]: [UInt8]] = [:]
    for part in NameList.names(text).map({ Array($0.utf8) }) {
      guard let sign = part.firstIndex(of: UInt8(ascii: "=")) else { continue }
      shares[Array(part[..<sign])] = Array(part[(sign + 1)...])
    }
    return shares
  }

  /// Returns whether no row can belong to both claims.
  package func isApart(from other: TableClaim) -> Bool {
    if text == Self.history || other.text == Self.history { return text == other.text }
    let theirs = other.shares
    return shares.contains { column, value in theirs[column].map { $0 != value } ?? false }
  }

  private var mayBeShared: Bool { text == Self.history || !shares.isEmpty }

  /// Another trail with rows in the same table of the target, and its claim; nil if the target stores no claim.
  package typealias Feeder = (trail: String, claim: TableClaim?)

  /// Returns an error if the claim of another trail on the same table may overlap with this claim; otherwise nil.
  package func collision(
    of trail: TrailName, with feeders: [Feeder], table: String, source: TableSchema, at place: String
  ) -> CairnError? {
    let other = feeders.first { feeder in
      feeder.claim != TableClaim.none && !(feeder.claim.map(isApart) ?? mayBeShared)
    }
    guard let other else { return nil }
    let name = ["", "public"].contains(source.namespace) ? source.name : source.fullName
    let from = source.treatment == nil ? "from = \"\(name)\", " : ""
    return CairnError(
      .nameCollision,
      "table \(table) of \(place) already has the rows of trail \(other.trail), and no column separates the rows of trail \(trail) from them",
      hint: """
        give the rule of each of the two applies its own constant, as in [[apply.NAME.table]] \(from)columns = \
        { source = "'\(trail)'", "*" = "*" }, or lead one of them to another table with `to`; if \(other.trail) is given \
        up, run 'cairn detach' on the target
        """,
      remedy: .stop, context: ["table": source.fullName])
  }
}

extension Value {
  fileprivate var claimed: String {
    switch self {
    case .null: ""
    case .integer(let number): String(number)
    case .real(let number): String(number)
    case .text(let bytes), .exact(let bytes): String(decoding: bytes, as: UTF8.self)
    case .blob(let bytes): bytes.hex
    }
  }
}
