/// Which rows of a table at the target are those of a trail. Copies, truncates and deletes take them all for rows of
/// the trail's source, so no two trails may claim the same.
package struct TableClaim: Equatable, Sendable {
  private static let history = "history"

  /// A table that waits since before its first row.
  package static let none = TableClaim(text: "-")

  /// As the target's state keeps it.
  @ByBytes package private(set) var text: String

  package init(text: String) { self.text = text }

  /// Of a table as its rule makes it.
  package init(_ schema: TableSchema) {
    let treatment = schema.treatment ?? .init()
    if treatment.isHistory {
      text = Self.history
    } else {
      text = NameList.text(treatment.shares.map { "\($0.column.asciiLowercased)=\($0.value.claimed)" })
    }
  }

  package var isOfHistory: Bool { text == Self.history }

  /// By column: the bytes of the constant. A sign of equality may be part of a cluster.
  private var shares: [[UInt8]: [UInt8]] {
    var shares: [[UInt8]: [UInt8]] = [:]
    for part in NameList.names(text).map({ Array($0.utf8) }) {
      guard let sign = part.firstIndex(of: UInt8(ascii: "=")) else { continue }
      shares[Array(part[..<sign])] = Array(part[(sign + 1)...])
    }
    return shares
  }

  /// Histories only add rows; of all else a constant must tell the one from the other.
  package func isApart(from other: TableClaim) -> Bool {
    if text == Self.history || other.text == Self.history { return text == other.text }
    let theirs = other.shares
    return shares.contains { column, value in theirs[column].map { $0 != value } ?? false }
  }

  /// Whether it is told from that of a trail of which an older version did not note any.
  private var mayBeShared: Bool { text == Self.history || !shares.isEmpty }

  /// Whose rows are in a table of the target, but for the trail's own; nil: not known what it claims.
  package typealias Feeder = (trail: String, claim: TableClaim?)

  /// Why the trail's rows must not go into a table that others feed; nil: they may.
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
      "table \(table) of \(place) has the rows of trail \(other.trail), and nothing tells those of trail \(trail) from them",
      hint: """
        let the rule of each of the two applies write a constant of its own, as in [[apply.NAME.table]] \(from)columns = \
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
