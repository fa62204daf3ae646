import Changes

/// A column of a key for which the database itself draws values, when a program gives none.
package struct DrawnKey: Equatable, Sendable {
  /// Where its values come from.
  package enum Source: Equatable, Sendable {
    /// SQLite: one more than the greatest in the table, whichever node it came from. `isMonotonic`: or than the greatest
    /// that ever was (AUTOINCREMENT).
    case rowid(isMonotonic: Bool)
    /// PostgreSQL: serial and identity columns, and other defaults that count.
    case sequence(Sequence)
  }

  package struct Sequence: Equatable, Sendable {
    /// As SQL names it, with its schema.
    @ByBytes package var name: String
    package var increment: Int64
    /// A value that it draws; with the increment it tells all others.
    package var start: Int64
    /// Nil: none was drawn yet.
    package var last: Int64?
    package var least: Int64
    package var greatest: Int64

    package init(name: String, increment: Int64, start: Int64, last: Int64?, least: Int64, greatest: Int64) {
      (self.name, self.increment, self.start) = (name, increment, start)
      (self.last, self.least, self.greatest) = (last, least, greatest)
    }
  }

  /// PostgreSQL: the schema of the table; empty in SQLite.
  @ByBytes package var namespace: String
  @ByBytes package var table: String
  @ByBytes package var column: String
  package var source: Source

  package init(namespace: String = "", table: String, column: String, source: Source) {
    (self.namespace, self.table, self.column, self.source) = (namespace, table, column, source)
  }

  /// As people name the table: with its schema where that is not `public`.
  package var fullName: String { ["", "public"].contains(namespace) ? table : "\(namespace).\(table)" }

  /// Whether two databases may draw the same value for different rows of what is one table.
  package func isAlike(_ other: DrawnKey) -> Bool {
    switch (source, other.source) {
    case (.rowid, .rowid): true
    // SQLite goes on upwards from what it sees; who goes down from zero is never met.
    case (.rowid, .sequence(let sequence)), (.sequence(let sequence), .rowid): sequence.increment > 0
    case (.sequence(let one), .sequence(let two)): one.meets(two)
    }
  }

  /// Whether somebody has made it draw other values than a database does by itself.
  package var isSeparated: Bool { if case .sequence(let sequence) = source { sequence.increment != 1 } else { false } }
}

extension DrawnKey.Sequence {
  fileprivate func meets(_ other: DrawnKey.Sequence) -> Bool {
    // One upwards from one, the other downwards from minus one.
    if increment > 0, other.increment < 0 { return other.greatest >= least }
    if increment < 0, other.increment > 0 { return greatest >= other.least }
    let (stride, rest) = (Self.gcd(increment.magnitude, other.increment.magnitude), start &- other.start)
    return stride == 0 || rest.magnitude % stride == 0
  }

  private static func gcd(_ a: UInt64, _ b: UInt64) -> UInt64 { b == 0 ? a : gcd(b, a % b) }

  /// The first value of its own behind a floor; nil where there is none left. `floor`: the furthest value in the
  /// direction in which it goes.
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

/// Which values each of several nodes draws.
package struct KeyShare: Equatable, Sendable {
  /// How many nodes there are.
  package var nodes: Int64
  /// Which of them this is, from 1.
  package var node: Int64
  /// Downwards from zero: where one of the other nodes is an SQLite file, which goes upwards.
  package var isBelowZero: Bool

  /// Nil where there is no such node.
  package init?(node: Int64, of nodes: Int64, isBelowZero: Bool = false) {
    guard nodes > 0, nodes <= 100_000, (1...nodes).contains(node) else { return nil }
    (self.nodes, self.node, self.isBelowZero) = (nodes, node, isBelowZero)
  }

  /// What the sequence is to be: it draws values of this node alone, all of them behind those that are there. Nil where
  /// none is left. `extreme`: the greatest value in the table, the least one where it goes below zero; nil: no row.
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
  /// Of two databases that hold the same tables, the keys that both draw alike. Tables are the same by their names, as
  /// they are on the way between the engines; letters count alike, large and small.
  package static func alike(_ one: [DrawnKey], _ other: [DrawnKey]) -> [(DrawnKey, DrawnKey)] {
    let byName = Dictionary(grouping: other, by: \.commonName.nameKey)
    return one.flatMap { key in (byName[key.commonName.nameKey] ?? []).filter(key.isAlike).map { (key, $0) } }
  }

  /// Table and column, as people name them.
  package var text: String { "\(fullName).\(column)" }

  /// Of the column, in either engine.
  private var commonName: String { "\(commonTable).\(column.asciiLowercased)" }

  /// Of the table, in either engine.
  package var commonTable: String { Self.commonName(ofTable: fullName) }

  /// `name`: as people name the table, with its schema where that is not `public`.
  package static func commonName(ofTable name: String) -> String {
    String(decoding: name.asciiLowercased.utf8.map { $0 == UInt8(ascii: ".") ? UInt8(ascii: "_") : $0 }, as: UTF8.self)
  }
}
