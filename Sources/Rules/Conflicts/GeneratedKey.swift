import Changes

/// A column of a unique key for which the database generates values, by rowid or sequence.
///
///     GeneratedKey(table: "orders", column: "id", source: .rowid(isMonotonic: true))
package struct GeneratedKey: Equatable, Sendable {
  /// The generator of a column's values.
  package enum Source: Equatable, Sendable {
    /// The rowid of SQLite: one more than the greatest rowid in the table. With `isMonotonic` (AUTOINCREMENT), one more
    /// than the greatest rowid that the table ever had.
    case rowid(isMonotonic: Bool)
    /// A sequence of PostgreSQL, as in serial and identity columns.
    case sequence(Sequence)
  }

  /// A sequence of PostgreSQL: its increment and bounds, and the last value that it has generated.
  ///
  ///     GeneratedKey.Sequence(name: "orders_id_seq", increment: 1, start: 1, last: 41, least: 1, greatest: .max)
  package struct Sequence: Equatable, Sendable {
    /// The qualified and quoted name of the sequence.
    @ByBytes package var name: String
    package var increment: Int64
    /// One value that the sequence generates. All its other values differ from it by multiples of the increment.
    package var start: Int64
    /// The last value that the sequence has generated; nil if there is none.
    package var last: Int64?
    package var least: Int64
    package var greatest: Int64

    package init(name: String, increment: Int64, start: Int64, last: Int64?, least: Int64, greatest: Int64) {
      (self.name, self.increment, self.start) = (name, increment, start)
      (self.last, self.least, self.greatest) = (last, least, greatest)
    }
  }

  /// The schema of the table in PostgreSQL; empty in SQLite.
  @ByBytes package var namespace: String
  @ByBytes package var table: String
  @ByBytes package var column: String
  package var source: Source

  package init(namespace: String = "", table: String, column: String, source: Source) {
    (self.namespace, self.table, self.column, self.source) = (namespace, table, column, source)
  }

  /// The name of the table for messages, with its schema unless that is `public`.
  package var fullName: String { ["", "public"].contains(namespace) ? table : "\(namespace).\(table)" }

  /// Returns whether two generators may generate the same value.
  package func isAlike(_ other: GeneratedKey) -> Bool {
    switch (source, other.source) {
    case (.rowid, .rowid): true
    // SQLite counts upwards from the greatest value, so a sequence that counts down from zero never collides with it.
    case (.rowid, .sequence(let sequence)), (.sequence(let sequence), .rowid): sequence.increment > 0
    case (.sequence(let one), .sequence(let two)): one.meets(two)
    }
  }

  /// Whether the sequence has an increment other than 1. The values between its own values are then free for other
  /// nodes.
  package var isSeparated: Bool { if case .sequence(let sequence) = source { sequence.increment != 1 } else { false } }
}

extension GeneratedKey.Sequence {
  fileprivate func meets(_ other: GeneratedKey.Sequence) -> Bool {
    // One sequence counts up from 1, the other one down from -1.
    if increment > 0, other.increment < 0 { return other.greatest >= least }
    if increment < 0, other.increment > 0 { return greatest >= other.least }
    let (stride, rest) = (Self.gcd(increment.magnitude, other.increment.magnitude), start &- other.start)
    return stride == 0 || rest.magnitude % stride == 0
  }

  private static func gcd(_ a: UInt64, _ b: UInt64) -> UInt64 { b == 0 ? a : gcd(b, a % b) }

  /// Returns the first value of the sequence after `floor`; nil if there is none.
  /// - Parameter floor: The used value that is furthest in the direction of the sequence.
  package func next(behind floor: Int64) -> Int64? {
    let isRising = increment > 0
    if isRising ? start > floor : start < floor { return start }
    let (distance, isFar) = floor.subtractingReportingOverflow(start)
    guard !isFar, increment != 0 else { return nil }
    let (steps, isMany) = (distance / increment).addingReportingOverflow(1)
    let (way, isLong) = steps.multipliedReportingOverflow(by: increment)
    let (value, isOver) = start.addingReportingOverflow(way)
    guard !isMany, !isLong, !isOver, (least...greatest).contains(value) else { return nil }
    return value
  }
}

/// The part of a sequence's values that one node generates. The parts of two nodes have no value in common.
///
///     KeyShare(node: 2, of: 3)   // the second of three nodes
///     KeyShare(node: 4, of: 3)   // nil
package struct KeyShare: Equatable, Sendable {
  /// The number of nodes that share the values: 1 to 100,000.
  package var nodes: Int64
  /// The number of this node, from 1 to ``nodes``.
  package var node: Int64
  /// Whether this node generates negative values.
  package var isBelowZero: Bool

  /// Creates the part of one node; nil if a number is out of range.
  package init?(node: Int64, of nodes: Int64, isBelowZero: Bool = false) {
    guard nodes > 0, nodes <= 100_000, (1...nodes).contains(node) else { return nil }
    (self.nodes, self.node, self.isBelowZero) = (nodes, node, isBelowZero)
  }

  /// Returns the sequence with a start and increment that give only this node's values, after all values that the table
  /// has. Nil if no value is left.
  /// - Parameter extreme: The greatest value in the table, or the least one if `isBelowZero`; nil if the table is
  ///   empty.
  package func separated(_ sequence: GeneratedKey.Sequence, extreme: Int64?) -> GeneratedKey.Sequence? {
    var own = sequence
    own.increment = isBelowZero ? -nodes : nodes
    own.start = isBelowZero ? -node : node
    if isBelowZero { (own.least, own.greatest) = (-sequence.greatest - 1, -1) }
    let last = (sequence.increment < 0) == isBelowZero ? sequence.last : nil
    let floors = [last ?? 0, extreme ?? 0, 0]
    guard let start = own.next(behind: (isBelowZero ? floors.min() : floors.max()) ?? 0) else { return nil }
    (own.start, own.last) = (start, nil)
    return own
  }
}

extension GeneratedKey {
  /// Returns the pairs of equally named columns of two databases for which both databases may generate the same values.
  package static func alike(_ one: [GeneratedKey], _ other: [GeneratedKey]) -> [(GeneratedKey, GeneratedKey)] {
    let byName = Dictionary(grouping: other, by: \.commonName.nameKey)
    return one.flatMap { key in (byName[key.commonName.nameKey] ?? []).filter(key.isAlike).map { (key, $0) } }
  }

  package var text: String { "\(fullName).\(column)" }

  /// The names of the table and the column, in a form that is the same for SQLite and PostgreSQL.
  private var commonName: String { "\(commonTable).\(column.asciiLowercased)" }

  /// The name of the table in a form that is the same for SQLite and PostgreSQL.
  package var commonTable: String { Self.commonName(ofTable: fullName) }

  /// Returns the name of a table in a form that is the same for SQLite and PostgreSQL: `shop.Items` and `shop_items`
  /// give `shop_items`.
  package static func commonName(ofTable name: String) -> String {
    String(decoding: name.asciiLowercased.utf8.map { $0 == UInt8(ascii: ".") ? UInt8(ascii: "_") : $0 }, as: UTF8.self)
  }
}
