import Changes
import SystemKit
import TrailText
import Trails

/// The options of `cairn trail show` that select transactions and changes.
struct TrailQuery {
  static let options = [
    Option("--table", "T", "show: changes of this table; SCHEMA.TABLE outside of public"),
    Option("--key", "K", "show, with --table: changes of the row with this key; 'a,b' for a key of two columns"),
    Option("--column", "C", "show, with --table: inserts, deletes, and updates that give this column another value"),
    Option("--since", "TIME", "show: transactions committed at this time or later"),
    Option("--until", "TIME", "show: transactions committed before this time"),
    Option("--by", "NODE", "show: transactions that this node committed first"),
    Option("--last", "N", "show: the last N such transactions, newest first"),
    Option("--reverse", nil, "show: newest first; with --sql, the statements that undo the changes"),
  ]

  private let arguments: Arguments
  private let folder: String

  init(_ arguments: Arguments, folder: String) { (self.arguments, self.folder) = (arguments, folder) }

  /// Whether an option selects by more than positions.
  static func isMeant(_ arguments: Arguments) -> Bool {
    options.contains { arguments.value($0.name) != nil || arguments.has($0.name) }
  }

  func run(from: Position?, to: Position?, dialect: TrailSQL.Dialect?) throws -> Int32 {
    let last = try last()
    let newestFirst = last != nil || arguments.has("--reverse")
    if dialect != nil, last != nil, !arguments.has("--reverse") {
      throw arguments.usage(
        "--sql prints statements in commit order", "leave out --last, or add --reverse for statements that undo;")
    }
    if dialect != nil, arguments.has("--reverse"), arguments.value("--column") != nil {
      throw arguments.usage("--sql --reverse undoes whole changes", "leave out --column;")
    }
    let filter = try filter()
    var bounds = TrailSearch.Bounds()
    (bounds.from, bounds.to, bounds.node) = (from, to, arguments.value("--by"))
    (bounds.since, bounds.until) = (try time("--since"), try time("--until"))
    if let since = bounds.since, let until = bounds.until, since >= until {
      throw arguments.usage("--since \(UTCTime(since)) is not before --until \(UTCTime(until))", nil)
    }
    let search = try TrailSearch(
      folder: folder, filter: filter, bounds: bounds, findsBarriers: dialect != nil && newestFirst)
    try check(filter, search)
    let found: Bool
    if let dialect, newestFirst {
      found = try TrailInverse(dialect: dialect, folder: folder, last: last).run(search)
    } else if let dialect {
      found = try FoundStatements(dialect).run(search)
    } else {
      let line = arguments.has("--json") ? TrailRecordsJSON.line : TrailRecordsText.line
      found = try FoundRecords(line: line, newestFirst: newestFirst, last: last).run(search)
    }
    try noteReach(bounds.since, found: found)
    return 0
  }

  // MARK: Options

  private func filter() throws -> RowFilter {
    let table = arguments.value("--table")
    for option in ["--key", "--column"] where arguments.value(option) != nil && table == nil {
      throw arguments.usage("\(option) needs a table", "add --table TABLE;")
    }
    return RowFilter(table: table, key: arguments.value("--key"), column: arguments.value("--column"))
  }

  private func last() throws -> Int? {
    guard let text = arguments.value("--last") else { return nil }
    guard let number = Int(text), (1...1_000_000_000).contains(number) else {
      throw arguments.usage("--last: '\(text)' is not a number of transactions", "write a number, such as 10;")
    }
    return number
  }

  private func time(_ option: String) throws -> Int64? { try Self.time(option, arguments) }

  /// Returns the value of an option in µs since 1970 UTC; nil if it is not given.
  static func time(_ option: String, _ arguments: Arguments) throws -> Int64? {
    guard let text = arguments.value(option) else { return nil }
    if let time = TimeText.parse(text, now: Clock.system.microseconds(), zone: LocalTime()) { return time }
    throw arguments.usage("\(option): '\(text)' is not a time", "write \(TimeText.forms);")
  }

  // MARK: Checks

  private func check(_ filter: RowFilter, _ search: TrailSearch) throws {
    guard let name = arguments.value("--table") else { return }
    let (found, names) = try search.newestSchema()
    let trail = Folder.lastName(of: folder)
    guard let schema = found else {
      guard let names else { return }
      let near = filter.table?.nearest(in: names).map { "did you mean '\($0)'? " } ?? ""
      let shown = names.prefix(20).joined(separator: ", ") + (names.count > 20 ? " and \(names.count - 20) more" : "")
      let there = names.isEmpty ? "the trail has no changes of any table;" : "there are: \(shown);"
      throw arguments.usage("no table '\(name)' in trail \(trail)", near + there)
    }
    if let column = filter.column, !schema.columns.contains(where: { $0.name.asciiLowercased == column }) {
      let names = schema.columns.map(\.name)
      let near = column.nearest(in: names).map { "did you mean '\($0)'? " } ?? ""
      throw arguments.usage(
        "table \(schema.fullName) has no column '\(arguments.value("--column") ?? "")'",
        near + "there are: \(names.joined(separator: ", "));")
    }
    if !filter.keys.isEmpty, filter.key(in: schema) == nil {
      let key = schema.key.isEmpty ? Array(schema.columns.indices) : schema.key
      let names = key.map { schema.columns[$0].name }.joined(separator: ",")
      throw arguments.usage(
        "--key: '\(arguments.value("--key") ?? "")' has not \(key.count.counted("value"))",
        "write the values of \(names), separated by commas, those with commas in single quotes;")
    }
  }

  /// Throws if a position is purged, or after the end of the trail.
  static func check(_ position: Position?, _ option: String, _ arguments: Arguments, folder: String) throws {
    guard let position else { return }
    let info = try Trail.info(folder: folder)
    if position.segment < info.firstPosition.segment {
      let since = info.segments.first.map { ", of \(UTCTime($0.created))" } ?? ""
      throw arguments.usage(
        "\(option): position \(position) is purged; trail \(info.name) begins at \(info.firstPosition)\(since)",
        "write \(option) \(info.firstPosition), or leave it out; [trail.NAME] keep holds more history;")
    }
    if position > info.end.position {
      throw arguments.usage(
        "\(option): trail \(info.name) ends at \(info.end.position), before \(position)", "write an earlier position;")
    }
  }

  // Changes before the trail's beginning are unknown, so nothing found does not mean that there were none.
  private func noteReach(_ since: Int64?, found: Bool) throws {
    let info = try Trail.info(folder: folder)
    guard let first = info.segments.first, first.number > 1, !found || since.map({ $0 < first.created }) ?? false
    else {
      if !found { Terminal.note("nothing found in trail \(info.name)") }
      return
    }
    Terminal.note(
      "\(found ? "" : "nothing found; ")trail \(info.name) reaches back to \(UTCTime(first.created)) only")
  }
}

/// Prints the records that a search finds, each transaction with its begin.
struct FoundRecords {
  /// The line for a record.
  let line:
    (_ record: Record, _ position: Position, _ number: UInt64, _ schema: (UInt64) -> TableSchema?) throws
      -> String
  let newestFirst: Bool
  /// The highest number of transactions.
  let last: Int?

  /// Returns whether anything was found.
  func run(_ search: TrailSearch) throws -> Bool {
    var groups: [(number: UInt64, lines: [String])] = []
    var shown: UInt64?
    var count = 0
    try TrailOutput.printing { output in
      try search.run(newestFirst: newestFirst) { hit in
        if case .begin = hit.record { return }
        let number = hit.transaction.number
        if groups.last?.number != number {
          groups.append((number, []))
          // A transaction that goes on in the next blocks has its begin printed already.
          if newestFirst || shown != number {
            groups[groups.count - 1].lines.append(
              try line(.begin(hit.transaction), hit.begin, number, hit.schema))
          }
        }
        groups[groups.count - 1].lines.append(try line(hit.record, hit.position, number, hit.schema))
      } done: {
        defer { groups = [] }
        for group in newestFirst ? groups.reversed() : groups {
          if shown != group.number {
            if let last, count == last { return .end }
            count += 1
          }
          shown = group.number
          for line in group.lines { output.line(line) }
        }
        return .more
      }
    }
    return count > 0
  }
}

/// Prints the records that a search finds as SQL statements, in commit order.
struct FoundStatements {
  private let dialect: TrailSQL.Dialect

  init(_ dialect: TrailSQL.Dialect) { self.dialect = dialect }

  /// Returns whether anything was found.
  func run(_ search: TrailSearch) throws -> Bool {
    var sql = TrailSQL(dialect)
    var open: UInt64?
    try TrailOutput.printing { output in
      func show(_ record: Record, _ position: Position, _ schema: (UInt64) -> TableSchema?) throws {
        for line in try sql.render(record, at: position, schema: schema) { output.line(line) }
      }
      func close(_ position: Position) throws {
        if let number = open { try show(.commit(number: number, changes: 0), position) { _ in nil } }
      }
      for line in sql.prologue { output.line(line) }
      var end = Position.start
      try search.run(newestFirst: false) { hit in
        switch hit.record {
        case .begin, .commit: return
        default: break
        }
        if open != hit.transaction.number {
          try close(end)
          open = hit.transaction.number
          try show(.begin(hit.transaction), hit.begin, hit.schema)
        }
        try show(hit.record, hit.position, hit.schema)
        end = hit.position
      } done: {
        .more
      }
      try close(end)
    }
    try sql.reportProblems()
    return open != nil
  }
}
