import Changes

/// The quarantine log of a target: the transactions that the target refused, and those that depend on one of them. The
/// target stores it in `cairn_quarantine` (SQLite) or `cairn.quarantine` (PostgreSQL).
///
/// Apply skips a transaction and adds the entry in one commit. Not thread-safe.
///
///     let log = QuarantineLog(try Database(path: "copy.db"))
///     let held = try log.list()
package struct QuarantineLog {
  private static let name = "quarantine"
  private static let rowsMax = 1_000_000
  private let state: any StateDatabase

  init(_ state: some StateDatabase) { self.state = state }

  private var table: String { state.table(Self.name) }

  package func isInstalled() throws -> Bool { try state.hasTable(Self.name) }

  package func list() throws -> [QuarantinedTransaction] {
    guard try isInstalled() else { return [] }
    // The inner LIMIT bounds the sort: a file's B-tree may name the same pages again and again.
    let rows = try state.rows(
      """
      SELECT id, \(QuarantineColumns.list) FROM (SELECT * FROM \(table) LIMIT \(Self.rowsMax + 1)) AS q
      ORDER BY trail, number
      """)
    guard rows.count <= Self.rowsMax else { throw QuarantineColumns.damaged(table, state.place) }
    return try rows.map { row in
      guard let id = row[0].flatMap({ Int64($0) }),
        let one = QuarantineColumns.transaction(id: id, { row[$0 + 1] })
      else { throw QuarantineColumns.damaged(table, state.place) }
      return one
    }
  }

  package func find(_ id: Int64) throws -> QuarantinedTransaction? { try list().first { $0.id == id } }

  /// Stores the operator's request to retry or discard a transaction in quarantine. Returns false if no transaction has
  /// this number.
  ///
  /// Apply reads requests every 500 ms.
  package func ask(_ id: Int64, for wish: QuarantinedTransaction.Wish) throws -> Bool {
    guard try isInstalled() else { return false }
    return try state.run("UPDATE \(table) SET wanted = ? WHERE id = ?", [wish.rawValue, String(id)]) == 1
  }

  // MARK: In apply's transaction

  /// Creates the log's table in the caller's transaction. Several apply workers may call this at once.
  private func install() throws {
    try state.lockForInstall()
    if try isInstalled() { return }
    try state.create(
      Self.name, isNeverUsedAgain: true, QuarantineColumns.names, numbers: QuarantineColumns.numbers)
  }

  func append(_ one: QuarantinedTransaction) throws -> Int64 {
    if try !isInstalled() { try install() }
    let marks = state.marks(QuarantineColumns.names.count)
    return try state.first(
      "INSERT INTO \(table)(\(QuarantineColumns.list)) VALUES (\(marks)) RETURNING id", QuarantineColumns.texts(one)
    ).flatMap { Int64($0) } ?? 0
  }

  func save(_ one: QuarantinedTransaction) throws {
    let list = QuarantineColumns.names.map { "\($0) = ?" }.joined(separator: ", ")
    try state.run("UPDATE \(table) SET \(list) WHERE id = ?", QuarantineColumns.texts(one) + [String(one.id)])
  }

  func remove(_ id: Int64) throws { try state.run("DELETE FROM \(table) WHERE id = ?", [String(id)]) }

  func forget(_ trail: TrailName?) throws {
    for name in [Self.name, Self.discardedName] where try state.hasTable(name) {
      guard let trail else {
        try state.run("DELETE FROM \(state.table(name))")
        continue
      }
      try state.run("DELETE FROM \(state.table(name)) WHERE trail = ?", [trail.description])
    }
  }
}

// Discarded transactions: in a two-way database they make no versions of rows, also after a restart of its applies.
// `cairn_discarded` (SQLite) or `cairn.discarded` (PostgreSQL) has their numbers.
extension QuarantineLog {
  private static let discardedName = "discarded"
  private static let discardedColumns = ["trail", "trail_id", "number"]
  /// The maximum number of discarded transactions that the target stores, of all trails. Operators discard them one by
  /// one. After more of them, the versions of the first ones count again.
  static let discardedMax: Int64 = 10_000

  private var discardedTable: String { state.table(Self.discardedName) }

  /// Removes a transaction from quarantine and stores that the target never gets its rows, in the caller's transaction.
  func discard(_ one: QuarantinedTransaction) throws {
    if try !state.hasTable(Self.discardedName) {
      try state.lockForInstall()
      if try !state.hasTable(Self.discardedName) {
        try state.create(Self.discardedName, isNeverUsedAgain: true, Self.discardedColumns, numbers: ["number"])
      }
    }
    try remove(one.id)
    let (trail, id) = (one.trail.description, one.border.trail.description)
    try state.run("DELETE FROM \(discardedTable) WHERE trail = ? AND trail_id <> ?", [trail, id])
    let columns = Self.discardedColumns.joined(separator: ", ")
    let last =
      try state.first(
        "INSERT INTO \(discardedTable)(\(columns)) VALUES (\(state.marks(Self.discardedColumns.count))) RETURNING id",
        [trail, id, String(Int64(bitPattern: one.number))]
      ).flatMap { Int64($0) } ?? 0
    try state.run("DELETE FROM \(discardedTable) WHERE id <= ?", [String(last - Self.discardedMax)])
  }

  /// Returns the numbers of a trail's discarded transactions.
  func discarded(of trail: TrailName, _ id: TrailID) throws -> Set<UInt64> {
    guard try state.hasTable(Self.discardedName) else { return [] }
    let rows = try state.rows(
      "SELECT number FROM \(discardedTable) WHERE trail = ? AND trail_id = ? LIMIT \(Self.discardedMax)",
      [trail.description, id.description])
    return Set(rows.compactMap { $0[0].flatMap { Int64($0) }.flatMap(NumberBounds.number) })
  }
}

enum QuarantineColumns {
  static let names = [
    "trail", "trail_id", "number", "position", "border", "chain", "at", "code", "message", "hint", "held_by", "wanted",
    "rows", "keys",
  ]
  static let numbers = ["number", "at", "held_by", "rows"]
  static var list: String { names.joined(separator: ", ") }

  static func transaction(id: Int64, _ text: (Int) -> String?) -> QuarantinedTransaction? {
    guard let trail = text(0).flatMap({ TrailName($0) }), let trailID = text(1).flatMap({ TrailID(hex: $0) }),
      let number = text(2).flatMap({ Int64($0) }).flatMap(NumberBounds.number),
      let position = text(3).flatMap({ Position($0) }),
      let border = text(4).flatMap({ Position($0) }), let chain = text(5).flatMap({ ChainHash(hex: $0) }),
      let at = text(6).flatMap({ Int64($0) }), NumberBounds.isTime(at),
      let writeSet = text(13).flatMap({ WriteSet($0) })
    else { return nil }
    return QuarantinedTransaction(
      id: id, trail: trail, number: number, position: position,
      border: Checkpoint(trail: trailID, position: border, chain: chain), at: at, code: text(7) ?? "",
      message: text(8) ?? "", hint: text(9) ?? "", heldBy: text(10).flatMap { Int64($0) },
      wish: text(11).flatMap { QuarantinedTransaction.Wish(rawValue: $0) }, writeSet: writeSet)
  }

  static func texts(_ one: QuarantinedTransaction) -> [String?] {
    [
      one.trail.description, one.border.trail.description, String(Int64(bitPattern: one.number)),
      one.position.description, one.border.position.description, one.border.chain.description, String(one.at), one.code,
      one.message, one.hint, one.heldBy.map { String($0) }, one.wish?.rawValue,
      String(one.writeSet.changeCount), one.writeSet.text,
    ]
  }

  static func damaged(_ table: String, _ place: String) -> CairnError {
    CairnError(
      .databaseDamaged, "table \(table) of \(place) holds a row that this version of Cairn did not write",
      hint: "use the version of Cairn that wrote it")
  }
}
