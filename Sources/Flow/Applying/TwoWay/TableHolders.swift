import Changes

/// For tables whose names differ only in case: the tables whose rows the version window lists.
///
/// In PostgreSQL, `item` and `ITEM` can be two tables, but their rows would have the same row names. So only the oldest
/// such table is listed.
///
///     let holders = try TableHolders(connection.oldestNames)  // of tables public.item and public."ITEM"
///     holders.areOther(schema, "public.ITEM", roots)          // true
struct TableHolders: Equatable {
  /// PostgreSQL: the oldest table of each name, ignoring case, by the name in lower case.
  private var oldest: [NameKey: String] = [:]
  /// SQLite: the PostgreSQL tables whose rows are replicated to a table, by the table's name in lower case.
  private var sources: [NameKey: Set<NameKey>] = [:]
  private let look: (() throws -> [NameKey: String])?

  init(sources: [NameKey: Set<NameKey>]) { (self.sources, look) = (sources, nil) }

  init() { self.init(sources: [:]) }

  /// Creates the value for a PostgreSQL target.
  ///
  /// - Parameter look: Reads the oldest table of each name, ignoring case, by the name in lower case.
  init(_ look: @escaping () throws -> [NameKey: String]) throws {
    self.look = look
    oldest = try look()
  }

  static func == (a: Self, b: Self) -> Bool {
    a.oldest.mapValues(\.nameKey) == b.oldest.mapValues(\.nameKey) && a.sources == b.sources
  }

  /// Returns whether another table already has the row names that the rows of this table would get.
  ///
  /// - Parameter name: The name of the table at the target.
  func areOther(_ table: TableSchema, _ name: String, _ roots: TableRoots) -> Bool {
    if let holder = oldest[name.sqliteKey] { return !holder.hasSameBytes(as: name) && !roots.isSpelling(name) }
    guard table.engine == .postgres, let sources = sources[name.sqliteKey] else { return false }
    let isLike = sources.contains { $0.text.sqliteKey == table.fullName.sqliteKey }
    return isLike && !sources.contains(table.fullName.nameKey) && !roots.isSpelling(name)
  }

  mutating func lookAgain() { if let found = try? look?() { oldest = found } }
}
