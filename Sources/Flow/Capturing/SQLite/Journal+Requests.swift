import Changes
import SQLiteKit

// Requests are journal rows of their own kind. They have the layout id of the table, and the values of the key in the
// columns for values.
extension Journal {
  private static let requestVersionMin: Int64 = 2

  /// Asks the capture of this source to send rows of a table again. If the table has no key, or a key contains NULL,
  /// asks for a refresh of the whole table.
  ///
  /// - Throws: `table-missing` if the table is not captured, `usage` if the keys do not fit, `trail-version` if an
  ///   older cairn captures the source.
  package func ask(_ request: RowRequest) throws {
    for keys in request.portions {
      try database.transaction {
        let layout = try requestable(request.table)
        let key = layout.schema.key
        if key.isEmpty || keys.contains(where: { $0.contains(.null) }) { return try askForCopy(layout) }
        if let odd = keys.first(where: { $0.count != key.count }) {
          throw CairnError(
            .usage,
            "a request has a key of \(odd.count.counted("value")), and the key of table \(layout.schema.name) has \(key.count)",
            hint: "run the command again: the table was altered meanwhile", remedy: .retry)
        }
        let names = key.map { "v\($0)" }.joined(separator: ",")
        let statement = try database.prepare(
          "INSERT INTO cairn_journal(code,\(names)) VALUES (?\(key.map { _ in ",?" }.joined()))")
        let code = Value.integer(layout.id * 8 + JournalKind.asked.rawValue)
        for values in keys {
          try statement.bind([code] + values)
          _ = try statement.step()
          statement.reset()
        }
      }
    }
  }

  /// Asks the capture of this source for a refresh of a whole table.
  ///
  /// - Throws: `table-missing` if the table is not captured, `trail-version` if an older cairn captures the source.
  package func askForCopy(of table: String) throws {
    try database.transaction { try askForCopy(try requestable(table)) }
  }

  private func askForCopy(_ layout: CaptureInstance) throws {
    guard layout.refresh == nil || layout.isPartial else { return }
    try setRefresh(.asked, layout: layout.id)
    // A running capture reads `cairn_layout` again at a marker row.
    try database.run("INSERT INTO cairn_journal(code) VALUES (?)", [.integer(JournalKind.marker.rawValue)])
  }

  private func requestable(_ table: String) throws -> CaptureInstance {
    guard try owner() != nil else {
      throw CairnError(
        .tableMissing, "\(database.path) is not captured", hint: "start 'cairn replicate' on it first",
        remedy: .badInput)
    }
    guard try database.integer("SELECT version FROM cairn_control WHERE id = 0") ?? 0 >= Self.requestVersionMin else {
      throw CairnError(
        .trailVersion, "\(database.path) is captured by an older version of Cairn, which cannot send single rows again",
        hint: "end its 'cairn replicate' and start it with this version; its state stays valid", remedy: .retry)
    }
    if try isUnhooked(table) { throw missing(table, "is unhooked: 'cairn rehook' copies it again") }
    guard let layout = try activeLayouts().first(where: { $0.schema.name.sqliteKey == table.sqliteKey }) else {
      throw missing(table, "is not captured")
    }
    return layout
  }
}
