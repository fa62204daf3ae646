import Changes
import SQLiteKit
import Statements
import TrailText
import Trails

/// `cairn trail show --statements`: prints the SQL statements that applications executed. With `--sql DIALECT`, changes
/// without a known statement are printed as SQL of that dialect.
struct TrailExecuted {
  let dialect: TrailSQL.Dialect?

  func run(_ extract: TrailExtract) throws -> Int32 {
    var sql = dialect.map { TrailSQL($0) }
    try TrailOutput.printing { output in
      var isInStatement = false
      var tables = SourceTables()
      var open: ExecutedStatement?
      /// The lines for the beginning of the current transaction (a comment and BEGIN), until they are printed; nil
      /// after that.
      var begin: String?
      func line(_ text: String) {
        if let text = begin { output.line(text) }
        begin = nil
        output.line(text)
      }
      try extract.read { record, reader in
        let rendered = try sql?.render(record, at: reader.position, schema: reader.schema) ?? []
        switch record {
        case .begin(let header):
          isInStatement = false
          begin = "-- transaction \(header.number) at \(reader.position), \(UTCTime(header.commitTime))\nBEGIN;"
        case .commit:
          if begin == nil { output.line("COMMIT;") }
        case .statement(let view):
          let statement = try view.executed()
          for text in Self.lines(statement) { line(text) }
          (isInStatement, open) = (true, statement)
        case .statementEnd(let end):
          isInStatement = false
          // After its changes, which make its tables known.
          tables.note(segment: reader.position.segment) { id in reader.schema(id).map { (table: $0, isAsItIs: true) } }
          if let statement = open, end.changes > 0 || Unreplayable.isSchemaChange(statement.text) {
            for text in refusals(statement, tables) { line(text) }
          }
          open = nil
        case .ddl(let ddl) where isInStatement:
          // The form in which the change reaches a target.
          line(TrailRecordsText.ddl(ddl, reader.schema).sqlComment)
          for text in rendered where !text.hasPrefix("-- transaction ") {
            for part in text.unicodeScalars.split(separator: "\n") { line("  \(String(part))".sqlComment) }
          }
        default:
          guard !isInStatement else { return }
          // The first line of a transaction repeats its begin, which is printed already.
          for text in rendered where !text.hasPrefix("-- transaction ") { line(text) }
        }
      }
    }
    return 0
  }

  /// Returns the reasons why apply would write the rows of a statement instead of executing the statement.
  private func refusals(_ statement: ExecutedStatement, _ tables: SourceTables) -> [String] {
    if Unreplayable.isSchemaChange(statement.text) { return [Unreplayable.schemaChange.reason.sqlComment] }
    var reasons: [Engine: String] = [:]
    for engine in [Engine.sqlite, .postgres] {
      if case .no(let reason) = Replayable.judge(statement, for: engine, tables: tables.table) {
        reasons[engine] = reason
      }
    }
    switch (dialect, reasons[.sqlite], reasons[.postgres]) {
    case (.postgres?, _, let reason?): return ["as rows: \(reason)".sqlComment]
    case (.postgres?, _, nil): return []
    case (_, let reason?, _): return ["as rows: \(reason)".sqlComment]
    case (nil, nil, let reason?): return ["as rows in PostgreSQL: \(reason)".sqlComment]
    default: return []
    }
  }

  private static func lines(_ statement: ExecutedStatement) -> [String] {
    var facts: [String] = []
    if !statement.parameters.isEmpty {
      facts.append("with " + statement.parameters.map { $0.shown(max: 200) }.joined(separator: ", "))
    }
    facts.append("\(statement.rowsAffected.counted("row"))")
    if let now = statement.now { facts.append("at \(UTCTime(now))") }
    if statement.flags.contains(.isPartial) { facts.append("touches tables that are not captured") }
    return [facts.joined(separator: "; ").sqlComment, shown(statement.text)]
  }

  /// Returns a statement as it was executed, or in comments if a shell of either engine could read more in it than one
  /// statement. The text comes from a file or a peer, and the operator may pipe the output into `sqlite3` or `psql`.
  ///
  /// Source: https://sqlite.org/cli.html, https://www.postgresql.org/docs/15/app-psql.html
  static func shown(_ text: String) -> String {
    let lines = text.split(at: "\n", omittingEmpty: false)
    // The engines disagree about these bytes, so one could end a string or a comment where the other does not.
    let isPlain = text.utf8.allSatisfy { byte in
      byte >= 0x20 && byte != 0x7f && !"\\$`[#".utf8.contains(byte) || byte == 0x09 || byte == 0x0a
    }
    let tokens = SQLText.tokens(Array(text.utf8))
    let isOne = tokens.dropLast().allSatisfy { $0.symbol != UInt8(ascii: ";") }
    let isCommand = lines.contains { line in
      let bytes = line.utf8.drop { $0 == 0x20 || $0 == 0x09 }
      return bytes.first.map(".@/".utf8.contains) ?? false
        || bytes.count <= 3 && line.asciiLowercased.utf8.starts(with: "go".utf8)
    }
    // Only PostgreSQL nests such comments.
    let hasBlock = text.utf8.firstRange(of: "/*".utf8) != nil
    if isPlain, isOne, !isCommand, !hasBlock { return ended(text) }
    return lines.map(\.sqlComment).joined(separator: "\n")
  }

  /// Returns the statement with a semicolon at the end. After a comment, the semicolon is on a new line.
  private static func ended(_ text: String) -> String {
    let tokens = SQLText.tokens(Array(text.utf8))
    if tokens.last?.symbol == UInt8(ascii: ";") { return text }
    return text + (tokens.last.map { $0.range.upperBound == text.utf8.count } ?? true ? ";" : "\n;")
  }
}
