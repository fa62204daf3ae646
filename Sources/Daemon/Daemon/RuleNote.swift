import Applying
import Changes
import Mapping
import SystemKit
import Transforming

/// The file with the present rules of an apply, and with the tables whose rows it wrote under earlier rules.
struct RuleNote {
  struct Content: Equatable {
    var rules: [TableRule]
    /// The tables whose rows were written under an earlier rule than the present one.
    var changed: [ChangedRule] = []
  }

  /// The maximum size of the file, in bytes. A trail chooses the names of the tables in it.
  static let bytesMax = 64 << 20

  private let path: String

  init(state: String, apply: String) { path = "\(state)/applies/\(apply).rules" }

  /// Returns the content of the file; nil if it does not exist.
  ///
  /// - Throws: `state-foreign` if the file does not have the format of this version of Cairn, or is too large.
  func read() throws -> Content? {
    guard Folder.exists(path) else { return nil }
    let text: String
    do throws(FileError) { text = try File.text(path, bytesMax: Self.bytesMax) } catch {
      throw error.isTooLarge ? foreign : error.asCairnError(doing: "read an apply's rules")
    }
    guard case .object(let object)? = try? JSONReader.read(text), let content = Content(object) else { throw foreign }
    return content
  }

  private var foreign: CairnError {
    CairnError(
      .stateForeign, "\(path) was not written by this version of Cairn, so the former rules of tables are unknown",
      hint: "use the version that wrote it; or remove the file, and run 'cairn copy' for tables with changed rules")
  }

  /// Writes the file.
  ///
  /// - Throws: `rule-refused` if the file would be larger than ``bytesMax``.
  func note(_ content: Content) throws {
    guard (try? read()) != content else { return }
    let text = content.json.line + "\n"
    guard text.utf8.count <= Self.bytesMax else {
      throw CairnError(
        .ruleRefused,
        "the former rules of \(content.changed.count.counted("table")) take more than \(Self.bytesMax >> 20) MiB in \(path)",
        hint: "restore the rules in the conf, and change them for fewer tables at a time", remedy: .badInput)
    }
    do throws(FileError) {
      try Folder.create(Folder.parent(of: path))
      try File.replace(path, text: text, permissions: 0o640)
    } catch { throw error.asCairnError(doing: "note an apply's rules") }
  }
}

extension RuleNote.Content {
  fileprivate var json: JSONObject {
    JSONObject([
      ("rules", .list(rules.map { .object($0.json) })),
      (
        "changed",
        .list(
          changed.map { table in
            .object(
              JSONObject([
                ("table", .text(table.table)), ("copied", .bool(table.isCopied)),
                ("before", .list(table.before.map { $0.map { .object($0.json) } ?? .null })),
              ]))
          })
      ),
    ])
  }

  fileprivate init?(_ object: JSONObject) {
    let rules = object.objects("rules").compactMap(TableRule.init(json:))
    guard rules.count == object.list("rules").count else { return nil }
    var changed: [ChangedRule] = []
    for item in object.objects("changed") {
      guard let table = item.text("table"), let isCopied = item.bool("copied") else { return nil }
      var before: [TableRule?] = []
      for value in item.list("before") {
        switch value {
        case .null: before.append(nil)
        case .object(let json):
          guard let rule = TableRule(json: json) else { return nil }
          before.append(rule)
        default: return nil
        }
      }
      changed.append(ChangedRule(table, before: before, isCopied: isCopied))
    }
    guard changed.count == object.list("changed").count else { return nil }
    self.init(rules: rules, changed: changed)
  }
}

extension TableRule {
  fileprivate var json: JSONObject {
    var object = JSONObject([("from", .text(from))])
    if let to { object["to"] = .text(to) }
    if let filter { object["where"] = .text(filter) }
    if let columns {
      object["columns"] = .list(
        columns.map { column in
          var item = JSONObject([
            ("name", .text(column.name)), ("expr", .text(column.expression)), ("share", .bool(column.isShare)),
          ])
          if let type = column.type { item["type"] = .text(type) }
          return .object(item)
        })
    }
    switch delete {
    case .apply: break
    case .keep: object["delete"] = .text("keep")
    case .mark(let column): object["delete"] = .text("mark:\(column)")
    }
    if mode == .history { object["mode"] = .text("history") }
    return object
  }

  fileprivate init?(json: JSONObject) {
    guard let from = json.text("from") else { return nil }
    self.init(from: from)
    (to, filter) = (json.text("to"), json.text("where"))
    if json["columns"] != nil {
      let items = json.objects("columns")
      let columns = items.compactMap { item -> Column? in
        guard let name = item.text("name"), let expression = item.text("expr"), let isShare = item.bool("share") else {
          return nil
        }
        return Column(name, expression, type: item.text("type"), isShare: isShare)
      }
      guard columns.count == json.list("columns").count else { return nil }
      self.columns = columns
    }
    switch json.text("delete") {
    case nil: break
    case "keep"?: delete = .keep
    case let text? where text.hasPrefix("mark:"): delete = .mark(column: String(text.dropFirst("mark:".count)))
    default: return nil
    }
    mode = json.text("mode") == "history" ? .history : .mirror
  }
}
