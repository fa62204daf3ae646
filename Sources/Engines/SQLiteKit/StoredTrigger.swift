import Changes
import SystemKit

/// A trigger of an SQLite file, read from its SQL text.
///
///     try database.storedTriggers().filter { $0.written.contains("doc_fts") }
package struct StoredTrigger: Sendable {
  package let name: String
  package let table: String
  private let text: [UInt8]
  private let tokens: [SQLText.Token]

  /// Reads the text of a trigger on a table or view.
  ///
  /// - Parameter text: The statement `CREATE TRIGGER name …`, as in `sqlite_master`.
  package init(name: String, table: String, text: String) {
    (self.name, self.table) = (name, table)
    self.text = Array(text.utf8)
    tokens = SQLText.tokens(self.text)
  }

  package var isOfView: Bool { tokens.prefix { $0.word != "BEGIN" }.contains { $0.word == "INSTEAD" } }

  /// The tables that the trigger's statements write to, except its own table: each once, in the trigger's spelling.
  package var written: [String] {
    var known: Set = [table.sqliteKey]
    return writes.map(\.name).filter { known.insert($0.sqliteKey).inserted }
  }

  /// Whether a BEFORE trigger for UPDATE or DELETE updates or deletes rows of its own table. These may be the row for
  /// which it fires. Source: https://www.sqlite.org/lang_createtrigger.html#undefined_before
  package var mayChangeItsRow: Bool {
    let head = tokens.prefix { $0.word != "ON" }.compactMap(\.word)
    guard !head.contains("AFTER"), !head.contains("INSTEAD"), head.contains("UPDATE") || head.contains("DELETE") else {
      return false
    }
    let own = table.sqliteKey
    return writes.contains { $0.changesRows && $0.name.sqliteKey == own }
  }

  /// The writes of the trigger's statements, with the written tables in the trigger's spelling.
  private var writes: [(changesRows: Bool, name: String)] {
    guard let begin = tokens.firstIndex(where: { $0.word == "BEGIN" }) else { return [] }
    let body = Array(tokens[(begin + 1)...])
    return body.indices.compactMap { index in
      let place: Int? =
        switch body[index].word {
        case "INTO": index + 1
        case "FROM" where index > 0 && body[index - 1].word == "DELETE": index + 1
        case "UPDATE" where index + 1 < body.count && body[index + 1].word == "OR": index + 3
        // This excludes the UPDATE of an upsert.
        case "UPDATE" where index == 0 || body[index - 1].word != "DO": index + 1
        default: nil
        }
      guard let place, place < body.count, let name = name(body[place]) else { return nil }
      return (body[index].word != "INTO", name)
    }
  }

  /// Returns the statement that creates the same trigger as a TEMP trigger with another name. Nil if the text is no
  /// trigger.
  package func temporary(_ other: String) -> String? {
    guard tokens.count > 4, tokens[0].word == "CREATE", tokens[1].word == "TRIGGER",
      let on = tokens.firstIndex(where: { $0.word == "ON" }), on > 2, on + 1 < tokens.count
    else { return nil }
    let dot = UInt8(ascii: ".")
    let last = on + 3 < tokens.count && tokens[on + 2].symbol == dot ? on + 3 : on + 1
    let event = text[tokens[2].range.upperBound..<tokens[on].range.lowerBound]
    let rest = text[tokens[last].range.upperBound...]
    return "CREATE TEMP TRIGGER \(other.quotedName) \(String(decoding: event, as: UTF8.self)) ON main."
      + table.quotedName + String(decoding: rest, as: UTF8.self)
  }

  private func name(_ token: SQLText.Token) -> String? {
    let bytes = text[token.range]
    switch token.symbol {
    case 0: return String(decoding: bytes, as: UTF8.self)
    case UInt8(ascii: "\""), UInt8(ascii: "`"), UInt8(ascii: "'"):
      return String(undoubling: bytes.dropFirst().dropLast(), token.symbol)
    case UInt8(ascii: "["): return String(decoding: bytes.dropFirst().dropLast(), as: UTF8.self)
    default: return nil
    }
  }
}

extension Database {
  /// Returns the application's triggers on tables (not on views), in order of creation.
  ///
  /// - Parameter table: The only table whose triggers are read; nil for all tables.
  package func storedTriggers(of table: String? = nil) throws -> [StoredTrigger] {
    let key = table?.sqliteKey
    return try query("SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY rowid").compactMap {
      Pulse.beat()
      guard key == nil || $0[1].string.sqliteKey == key, !$0[0].string.asciiLowercased.hasPrefix("cairn_") else {
        return nil
      }
      let trigger = StoredTrigger(name: $0[0].string, table: $0[1].string, text: $0[2].string)
      return trigger.isOfView ? nil : trigger
    }
  }

  package func virtualTables() throws -> Set<NameKey> {
    Set(
      try query("SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL %'")
        .map { $0[0].string.sqliteKey })
  }
}
