import Changes

/// A key column for which the database generates values if an application gives none.
package struct DrawnKey: Equatable, Sendable {
  /// The generator of a key column's values.
  package enum Source: Equatable, Sendable {
    /// SQLite: one more than the greatest rowid in the table, whichever node inserted it. With `isMonotonic`
    /// (AUTOINCREMENT): one more than the greatest rowid ever used.
    case rowid(isMonotonic: Bool)
    /// PostgreSQL: serial and identity columns, and other defaults that use a sequence.
    case sequence(Sequence)
  }

  package struct Sequence: Equatable, Sendable {
    /// The qualified and quoted name of the sequence in SQL.
    @ByBytes package var name: String
    package var increment: Int64
    /// One value that the sequence generates. With the increment, it determines all others.
    package var start: Int64
    /// The last value that the sequence has generated; nil if there is none yet.
    package var last: Int64?
    package var least: Int64
    package var greatest: Int64

    package init(name: String, increment: Int64, start: Int64, last: Int64?, least: Int64, greatest: Int64) {
      (self.name, self.increment, self.start) = (name, increment, start)
      (self.last, self.least, self.greatest) = (last, least, greatest)
    }
  }

  /// The schema (namespace) of the table in PostgreSQL; empty in SQLite.
  @ByBytes package var namespace: String
  @ByBytes package var table: String
  @ByBytes package var column: String
  package var source: Source

  package init(namespace: String = "", table: String, column: String, source: Source) {
    (self.namespace, self.table, self.column, self.source) = (namespace, table, column, source)
  }

  /// The name of the table for messages: with its schema unless that is `public`.
  package var fullName: String { ["", "public"].contains(namespace) ? table : "\(namespace).\(table)" }

  /// Returns whether two databases may generate the same value for different rows of the same table.
  package func isAlike(_ other: DrawnKey) -> Bool {
    switch (source, other.source) {
    case (.rowid, .rowid): true
    // SQLite counts upwards from the greatest value, so a sequence that counts down from zero never collides with it.
    case (.rowid, .sequence(let sequence)), (.sequence(let sequence), .rowid): sequence.increment > 0
    case (.sequence(let one), .sequence(let two)): one.meets(two)
    }
  }

  /// Whether the sequence has another increment than the default of 1, because an operator separated it from those of
  /// other nodes.
  package var isSeparated: Bool { if case .sequence(let sequence) = source { sequence.increment != 1 } else { false } }
}

extension DrawnKey.Sequence {
  fileprivate func meets(_ other: DrawnKey.Sequence) -> Bool {
    // One sequence counts up from 1, the other one down from -1.
    if increment > 0, other.increment < 0 { return other.greatest >= least }
    if increment < 0, other.increment > 0 { return greatest >= other.least }
    let (stride, rest) = (Self.gcd(increment.magnitude, other.increment.magnitude), start &- other.start)
    return stride == 0 || rest.magnitude % stride == 0
  }

  private static func gcd(_ a: UInt64, _ b: UInt64) -> UInt64 { b == 0 ? a : gcd(b, a % b) }

  /// Returns the first value of the sequence after a floor; nil if no value is left.
  /// - Parameter floor: the furthest used value in the direction in which the sequence counts.
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

/// The part of a key's values that one of several nodes generates, so that no two nodes generate the same value.
package struct KeyShare: Equatable, Sendable {
  /// The number of nodes that share the values of the key: 1 to 100,000.
  package var nodes: Int64
  /// The number of this node among the nodes that share the values, from 1.
  package var node: Int64
  /// Whether this node's values count down from zero. This is needed if another node's database is an SQLite file,
  /// where values count up.
  package var isBelowZero: Bool

  /// Creates the part of one node; nil if `node` or `of` is out of range.
  package init?(node: Int64, of nodes: Int64, isBelowZero: Bool = false) {
    guard nodes > 0, nodes <= 100_000, (1...nodes).contains(node) else { return nil }
    (self.nodes, self.node, self.isBelowZero) = (nodes, node, isBelowZero)
  }

  /// Returns the sequence with a start and an increment by which it generates only this node's values, all beyond the
  /// existing values. Nil if no value is left.
  /// - Parameter extreme: the greatest value in the table, or the least one if `isBelowZero`; nil if the table is
  ///   empty.
  package func separated(_ sequence: DrawnKey.Sequence, extreme: Int64?) -> DrawnKey.Sequence? {
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

extension DrawnKey {
  /// Returns the pairs of key columns for which two databases generate the same values. Tables match by their names as
  /// mapped between the engines, ignoring case.
  package static func alike(_ one: [DrawnKey], _ other: [DrawnKey]) -> [(DrawnKey, DrawnKey)] {
    let byName = Dictionary(grouping: other, by: \.commonName.nameKey)
    return one.flatMap { key in (byName[key.commonName.nameKey] ?? []).filter(key.isAlike).map { (key, $0) } }
  }

  /// The table and the column, for messages.
  package var text: String { "\(fullName).\(column)" }

  /// The names of the table and the column, in a form that is equal in both engines.
  private var commonName: String { "\(commonTable).\(column.asciiLowercased)" }

  /// The name of the table in a form that is equal in both engines.
  package var commonTable: String { Self.commonName(ofTable: fullName) }

  /// Returns the common form of a table's name, which includes the schema unless that is `public`.
  package static func commonName(ofTable name: String) -> String {
    String(decoding: name.asciiLowercased.utf8.map { $0 == UInt8(ascii: ".") ? UInt8(ascii: "_") : $0 }, as: UTF8.self)
  }
}
