import Changes
import TrailText
import Trails

/// `cairn trail show --sql --reverse`: prints the statements that undo what a search finds, newest first.
struct TrailInverse {
  let dialect: TrailSQL.Dialect
  let folder: String
  /// The highest number of transactions.
  let last: Int?

  /// The undo of one record.
  private struct Item {
    let number: UInt64
    let begin: String
    let position: Position
    let tables: [TableSchema]
    /// Whether older changes of these tables cannot be undone.
    let isBarrier: Bool
    /// Nil for a barrier outside of the search's bounds, which is not printed.
    let undo: InverseSQL.Undo?
  }

  /// Returns whether anything was found.
  ///
  /// - Throws: `unsupported`, at the end, if some changes cannot be undone.
  func run(_ search: TrailSearch) throws -> Bool {
    var sql = InverseSQL(dialect)
    var newest: [NameKey: TableSchema?] = [:]
    var barred: Set<NameKey> = []
    var open: UInt64?
    var count = 0
    var refused = 0
    func newestSchema(_ table: TableSchema) throws -> TableSchema? {
      if let known = newest[table.plainName.nameKey] { return known }
      let found = try TrailSearch(folder: folder, filter: RowFilter(table: table.fullName)).newestSchema().schema
      newest[table.plainName.nameKey] = .some(found)
      return found
    }
    try TrailOutput.printing { output in
      for line in sql.prologue { output.line(line) }
      var found: [Item] = []
      try search.run(newestFirst: true) { hit in
        let undo = try sql.undo(hit.record, at: hit.position, schema: hit.schema, newest: newestSchema)
        guard let undo else { return }
        let (tables, isBarrier) = Self.tables(of: hit)
        found.append(
          Item(
            number: hit.transaction.number, begin: sql.begin(hit.transaction, at: hit.begin), position: hit.position,
            tables: tables, isBarrier: isBarrier, undo: hit.isWithin ? undo : nil))
      } done: {
        defer { found = [] }
        for item in found.reversed() {
          let names = item.tables.map(\.plainName.nameKey)
          defer { if item.isBarrier { barred.formUnion(names) } }
          guard var undo = item.undo else { continue }
          if open != item.number {
            if let last, count == last { return .end }
            if open != nil { output.line("COMMIT;") }
            output.line(item.begin)
            (open, count) = (item.number, count + 1)
          }
          if case .statements = undo, names.contains(where: { barred.contains($0) }) {
            undo = sql.barred(item.tables, at: item.position)
          }
          switch undo {
          case .statements(let lines): for line in lines { output.line(line) }
          case .comment(let line):
            refused += 1
            output.line(line)
          }
        }
        return .more
      }
      if open != nil { output.line("COMMIT;") }
    }
    guard refused > 0 else { return open != nil }
    throw CairnError(
      .unsupported,
      "\(refused.counted("change")) cannot be undone by statements, and \(refused == 1 ? "is a comment" : "are comments")",
      hint: "search the output for '-- cannot be undone'; the statements undo the rest")
  }

  /// Returns the tables that a record concerns, and whether older changes of them cannot be undone.
  private static func tables(of hit: TrailSearch.Hit) -> ([TableSchema], isBarrier: Bool) {
    switch hit.record {
    case .ddl(let ddl): return ([ddl.before, ddl.after].compactMap(hit.schema), true)
    case .refresh(let refresh):
      // Changes that a copy brings are not in the trail.
      guard case .start(_, let method, _) = refresh.event else { return ([], false) }
      return ([hit.schema(refresh.schemaID)].compactMap(\.self), method != .rows)
    default: return ([hit.record.schemaID.flatMap(hit.schema)].compactMap(\.self), false)
    }
  }
}
