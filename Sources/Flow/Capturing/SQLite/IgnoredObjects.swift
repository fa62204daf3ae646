import Changes
import SQLiteKit

struct IgnoredObjects {
  private static let nameBytesMax = 256
  static let sentencesMax = 10
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
      let short = Self.shortened(name)
      if type == "trigger", Self.isOfCairn(trigger: name) { continue }
      found.insert(NameKey("\(type) \(name)"))
      guard !names.contains(NameKey("\(type) \(name)")) else { continue }
      switch type {
      case "view": sentences.append("view \(short) was created: views are not replicated")
      case "trigger":
        sentences.append("trigger \(short) was created: triggers are not replicated, what they write is")
      default: sentences.append("virtual table \(short) was created: virtual tables are not replicated")
      }
    }
    names = found
    let more = sentences.count - Self.sentencesMax
    guard more > 0 else { return sentences }
    return sentences.prefix(Self.sentencesMax) + ["\(more) more objects were created that are not replicated"]
  }

  private static func shortened(_ name: String) -> String {
    let isShort = name.utf8.count <= nameBytesMax
    return isShort ? name : String(decoding: name.utf8.prefix(nameBytesMax), as: UTF8.self) + "…"
  }

  static func isOfCairn(trigger name: String) -> Bool {
    CaptureTriggers.layout(ofTrigger: name) != nil || name.hasPrefix(SQLiteTable.guardPrefix)
  }

  /// Returns a notice with the names of objects of one kind; nil if there are none.
  ///
  ///     IgnoredObjects.notice("views are not replicated", ["v", "w"])   // "views are not replicated: v, w"
  ///
  /// - Parameter count: The number of objects; nil if all are in `names`.
  static func notice(_ what: String, _ names: [String], of count: Int? = nil) -> String? {
    guard !names.isEmpty else { return nil }
    let more = (count ?? names.count) - sentencesMax
    return "\(what): \(names.prefix(sentencesMax).map(shortened).joined(separator: ", "))"
      + (more > 0 ? " and \(more) more" : "")
  }
}
