import Changes
import Mapping

extension OriginAnswers {
  /// Returns the slice that a question requests, limited to ``rowsMax`` rows. In a slice of pages, replaces the number
  /// of a partition by the partition's name.
  ///
  /// - Throws: `usage` if the slice does not fit the table.
  static func checked(_ slice: Slice, _ table: ComparedTable, _ reader: any RowReader) throws -> Slice {
    switch slice {
    case .range(let after, let through, let limit):
      try check([after, through].compactMap(\.self), table)
      return .range(after: after, through: through, limit: min(max(1, limit ?? rowsMax), rowsMax))
    case .behind(let after, let limit):
      guard table.end(.source).engine == .sqlite else {
        throw refuse("this source is not SQLite, so it has no order by rowid")
      }
      let isByRowid = table.source.rowidName != nil
      guard isByRowid || !table.key.isEmpty else { throw refuse("the table has neither a key nor a rowid") }
      if isByRowid {
        guard after.map({ $0.count == 1 }) ?? true else { throw refuse("a rowid must be one value") }
      } else {
        try check([after].compactMap(\.self), table)
      }
      return .behind(after, limit: min(max(1, limit), rowsMax))
    case .nullKeys:
      guard !table.key.isEmpty else { throw refuse("the table has no key") }
      return slice
    case .pages(let part, let from, let below):
      guard case .pages(let parts) = try reader.parts(of: table), let index = Int(part), index < parts.count else {
        throw refuse("the table has no such part")
      }
      return .pages(table: parts[index].table, from: from, below: below)
    case .all:
      guard case .slices = try reader.parts(of: table) else { throw refuse("the table must be read in parts") }
      return slice
    }
  }

  /// Throws `usage` unless each key has one value for each key column, of a type that the source's engine has, or NULL.
  static func check(_ keys: [[Value]], _ table: ComparedTable) throws {
    let isPostgres = table.source.engine == .postgres
    for key in keys {
      let fits = key.allSatisfy { value in
        switch value {
        case .exact: isPostgres
        case .null: true
        case .integer, .real, .text, .blob: !isPostgres
        }
      }
      guard fits, !key.isEmpty, key.count == table.key.count else {
        throw refuse("a key does not match the key of this table")
      }
    }
  }
}
