import Changes

/// The tables whose rows have names in the version window, where another table would give its rows the same names.
///
/// PostgreSQL distinguishes tables whose names differ only in the case of ASCII letters, and row names do not. A
/// PostgreSQL target may have several such tables: only rows of the oldest have names. A trail of PostgreSQL may have
/// several, too: an SQLite target takes one of them, and refuses the others.
///
///     let holders = try TableHolders(connection.oldestNames)  // of tables public.item and public."ITEM"
///     holders.areOther(schema, "public.ITEM", roots)          // true
struct TableHolders: Equatable {
  /// For PostgreSQL, the oldest table for each name in lower case.
  private var oldest: [NameKey: String] = [:]
  /// For SQLite, the tables of PostgreSQL that feed a table, by its name in lower case.
  private var sources: [NameKey: Set<NameKey>] = [:]
  private let look: (() throws -> [NameKey: String])?

  /// Creates the holders of an SQLite target.
  init(sources: [NameKey: Set<NameKey>]) { (self.sources, look) = (sources, nil) }

  init() { self.init(sources: [:]) }

  /// Creates the holders of a PostgreSQL target from a function that reads the names of the oldest tables.
  init(_ look: @escaping () throws -> [NameKey: String]) throws {
    self.look = look
    oldest = try look()
  }

  static func == (a: Self, b: Self) -> Bool {
    a.oldest.mapValues(\.nameKey) == b.oldest.mapValues(\.nameKey) && a.sources == b.sources
  }

  /// Returns whether a table is another one than the one whose rows have the names that its rows would have.
  ///
  /// - Parameter name: The name that the table has, or would have, at the target.
  func areOther(_ table: TableSchema, _ name: String, _ roots: TableRoots) -> Bool {
    if let holder = oldest[name.sqliteKey] { return !holder.hasSameBytes(as: name) && !roots.isSpelling(name) }
    guard table.engine == .postgres, let sources = sources[name.sqliteKey] else { return false }
    let isLike = sources.contains { $0.text.sqliteKey == table.fullName.sqliteKey }
    return isLike && !sources.contains(table.fullName.nameKey) && !roots.isSpelling(name)
  }

  /// Reads the names again, as a new table may have replaced one that was dropped.
  mutating func lookAgain() { if let found = try? look?() { oldest = found } }
}
