import Changes
import SQLiteKit

struct IgnoredObjects {
  private var names: Set<NameKey> = []

  init(_ source: Database) throws { _ = try news(source) }

  /// Returns a message for each object, such as a view, that was created since the last call and is not replicated.
  mutating func news(_ source: Database) throws -> [String] {
    var found: Set<NameKey> = []
    var sentences: [String] = []
    let rows = try source.query(
      """
      SELECT type, name FROM sqlite_master
      WHERE type IN ('view', 'trigger') OR (type = 'table' AND sql LIKE 'CREATE VIRTUAL %') ORDER BY rowid
      """)
    for row in rows {
      let (type, name) = (row[0].string, row[1].string)
      if type == "trigger",
        CaptureTriggers.layout(ofTrigger: name) != nil || name.hasPrefix(SQLiteTable.guardPrefix)
      {
        continue
      }
      found.insert(NameKey("\(type) \(name)"))
      guard !names.contains(NameKey("\(type) \(name)")) else { continue }
      switch type {
      case "view": sentences.append("view \(name) was created: views are not replicated")
      case "trigger":
        sentences.append("trigger \(name) was created: triggers are not replicated, what they write is")
      default: sentences.append("virtual table \(name) was created: virtual tables are not replicated")
      }
    }
    names = found
    return sentences
  }
}
