import Changes

/// For several tables whose rows would have the same row names: the table whose rows the version window lists.
///
/// In PostgreSQL, `item` and `ITEM` can be two tables. Row names ignore the case of ASCII letters in table names. So at
/// a PostgreSQL target, the version window lists only rows of the oldest such table. At an SQLite target, only one such
/// table of a trail is replicated.
///
///     let holders = try TableHolders(connection.oldestNames)  // of tables public.item and public."ITEM"
///     holders.areOther(schema, "public.ITEM", roots)          // true
struct TableHolders: Equatable {
  /// For PostgreSQL: by name in lower case, the oldest of the tables that have this name in any case.
  private var oldest: [NameKey: String] = [:]
  /// For SQLite: by table name in lower case, the PostgreSQL tables whose rows are replicated to the table.
  private var sources: [NameKey: Set<NameKey>] = [:]
  private let look: (() throws -> [NameKey: String])?

  /// Creates the value for an SQLite target.
  init(sources: [NameKey: Set<NameKey>]) { (self.sources, look) = (sources, nil) }

  init() { self.init(sources: [:]) }

  /// Creates the value for a PostgreSQL target. `look` reads, by name in lower case, the oldest table of each name.
  init(_ look: @escaping () throws -> [NameKey: String]) throws {
    self.look = look
    oldest = try look()
  }

  static func == (a: Self, b: Self) -> Bool {
    a.oldest.mapValues(\.nameKey) == b.oldest.mapValues(\.nameKey) && a.sources == b.sources
  }

  /// Returns whether another table already has the row names that the rows of this table would get.
  ///
  /// - Parameter name: The name that the table has, or would have, at the target.
  func areOther(_ table: TableSchema, _ name: String, _ roots: TableRoots) -> Bool {
    if let holder = oldest[name.sqliteKey] { return !holder.hasSameBytes(as: name) && !roots.isSpelling(name) }
    guard table.engine == .postgres, let sources = sources[name.sqliteKey] else { return false }
    let isLike = sources.contains { $0.text.sqliteKey == table.fullName.sqliteKey }
    return isLike && !sources.contains(table.fullName.nameKey) && !roots.isSpelling(name)
  }

  /// Reads again which table is the oldest of each name, as a new table may have replaced a dropped one.
  mutating func lookAgain() { if let found = try? look?() { oldest = found } }
}
