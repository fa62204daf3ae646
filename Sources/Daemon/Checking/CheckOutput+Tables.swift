import Applying
import Capturing
import Changes
import Endpoints
import Mapping
import Replicating
import SQLiteKit

/// The functions that print the results of `cairn check` about tables, columns and files.
extension CheckOutput {
  package func tellTables(_ tables: [SourceDatabase.Table]) {
    for table in tables {
      say(
        "table \(table.name): \(table.refusal.map { "not captured: \($0)" } ?? identity(of: table.schema))",
        [
          ("event", .text("table")), ("table", .text(table.name)), ("captured", .bool(table.refusal == nil)),
          ("identity", .text(table.refusal ?? identity(of: table.schema))),
        ])
    }
    let mends = tables.map(\.mend).filter { !$0.isEmpty }
    guard mends.count > 1 else { return }
    let script = mends.joined(separator: "; ") + ";"
    say("one script for all tables: \(script)", [("event", .text("script")), ("sql", .text(script))])
  }

  /// Prints a notice, with `note: ` before it.
  package func note(_ notice: String) {
    say("note: \(notice)", [("event", .text("notice")), ("text", .text(notice))])
  }

  /// Prints a notice about tables with BLOB columns: `sqlite3_blob_write` changes values without firing the triggers of
  /// capture.
  package func tellBlobs(_ tables: [SourceDatabase.Table]) {
    let names = tables.filter { table in
      table.refusal == nil && table.schema.columns.contains { $0.declaredType.uppercased().contains("BLOB") }
    }.map(\.name)
    guard !names.isEmpty else { return }
    let text =
      "note: incremental blob I/O (sqlite3_blob_write) fires no trigger: a running capture finds such writes when it is idle, in files up to 64 MiB; else run 'cairn compare' (tables with BLOB columns: \(names.joined(separator: ", ")))"
    say(text, [("event", .text("notice")), ("text", .text(text))])
  }

  /// Prints the triggers of an SQLite target that do not fire while apply writes.
  package func tellQuietTriggers(
    _ end: TargetDatabase, _ tables: [SourceDatabase.Table], _ names: NamePolicy, firing patterns: [String]
  ) throws {
    guard case .sqlite(let database?) = end.handle else { return }
    let targets = try tables.map { try TableMapping($0.schema, to: .sqlite, names: names).target.name }
    for quiet in try QuietTrigger.all(in: database, tables: targets, firing: patterns) {
      say(
        quiet.text,
        [("event", .text("notice")), ("table", .text(quiet.table)), ("text", .text(quiet.text))])
    }
  }

  // MARK: The type contract

  /// Prints the contract of every column.
  package func tellContracts(
    _ tables: [SourceDatabase.Table], _ source: SourceDatabase, _ target: TargetDatabase, _ names: NamePolicy,
    within scope: TargetScope = TargetScope()
  ) throws {
    let proof = try source.server.map(ContractProof.init) ?? target.server.map(ContractProof.init)
    var owners: [NameKey: TableSchema] = [:]
    for table in tables {
      let mapping = try target.mapping(of: table.schema, names, within: scope)
      let (namespace, plain) = (mapping.target.namespace, mapping.target.name)
      guard scope.verdict(namespace, plain, in: target.url.engine) != .leftOut else {
        let text = "\(table.name) is left out: 'tables' of the apply does not include \(mapping.target.fullName)"
        say(text, [("event", .text("notice")), ("table", .text(table.name)), ("text", .text(text))])
        continue
      }
      // SQLite ignores the case of names.
      let name = mapping.target.fullName
      if let other = owners.updateValue(table.schema, forKey: target.server == nil ? name.sqliteKey : name.nameKey) {
        throw TableMapping.collision(other.fullName, table.schema.fullName, at: mapping.target.fullName)
      }
      say("\(table.name) -> \(mapping.target.fullName)", [])
      for (index, contract) in mapping.contracts.enumerated() {
        tell(contract, try proof?.prove(mapping, index), table.name)
      }
      for notice in try mapping.notices + target.emptyColumns(of: mapping.target) {
        say("  \(notice)", [("event", .text("notice")), ("table", .text(table.name)), ("text", .text(notice))])
      }
    }
  }

  private func tell(
    _ contract: ColumnContract, _ outcome: ContractProof.Outcome?, _ table: String
  ) {
    // An existing type may change values in ways that the table of types does not show.
    let altered = outcome?.broken.first
    let (verdict, how): (String, String) =
      switch contract.verdict {
      case .lossless where altered != nil: ("lossy", altered ?? "")
      case .lossless: ("lossless", "")
      case .lossy(let how): ("lossy", how)
      case .refused(let why): ("refused", why)
      }
    let proven = outcome.map { JSONObject.Value.integer(Int64($0.equal)) } ?? .null
    let members: [(String, JSONObject.Value)] = [
      ("event", .text("column")), ("table", .text(table)), ("column", .text(contract.column)),
      ("from", .text(contract.sourceType)), ("to", .text(contract.targetType)), ("contract", .text(verdict)),
      ("how", .text(how)), ("misfits", .text(contract.misfits)), ("proven", proven),
      ("altered", .list((outcome?.broken ?? []).map { .text($0) })),
    ]
    var line = "  \(contract.column): \(contract.sourceType) -> \(contract.targetType), \(verdict)"
    if !how.isEmpty { line += ": \(how)" }
    if !contract.misfits.isEmpty { line += "; does not fit: \(contract.misfits)" }
    if let outcome {
      line += " (\(outcome.equal) edge values came back equal"
      line += outcome.refused > 0 ? ", \(outcome.refused) were refused" : ""
      line += (outcome.broken.isEmpty ? "" : ", \(outcome.broken.count) came back changed") + ")"
    }
    say(line, members)
  }

  package func tellOfFile(_ source: Database, _ path: String) throws {
    let mode = try source.text("PRAGMA journal_mode") ?? "?"
    say(
      "\(path): journal mode \(mode)\(mode == "wal" ? "" : "; in WAL mode programs would not wait for our reads")",
      [("event", .text("source")), ("database", .text(path)), ("journal_mode", .text(mode))])
    if let error = try Journal(source).lostTables() { throw error }
    if let owner = try Journal(source).owner() {
      say(
        "\(path): captured already, state in \(owner.place)",
        [("event", .text("captured")), ("state", .text(owner.place)), ("trail_id", .text(owner.trail.description))])
      if try CaptureHome.isLost(owner.trail, in: owner.place) {
        note(
          "\(owner.place) does not have the trail of that capture, or this user cannot see it. If it is lost, nothing takes the changes from \(path), and its journal grows to the limit: run 'cairn detach sqlite:\(path)', and replicate again with --existing overwrite"
        )
      }
    }
    let names = try Journal(source).tablesWithoutTriggers
    if !names.isEmpty {
      note(
        "triggers of Cairn are missing on \(names.joined(separator: ", ")), as after DROP TRIGGER or a rebuild: writes since then are not captured. A capture that runs adds the triggers, and copies the \(names.count == 1 ? "table" : "tables")"
      )
    }
  }

  private func identity(of schema: TableSchema) -> String {
    if schema.flags.contains(.wholeRow) {
      return "no key: all columns together identify a row, which is slow"
    }
    let names = schema.key.map { schema.columns[$0].name }.joined(separator: ", ")
    return schema.flags.contains(.nullableKey)
      ? "key \(names), which may be NULL: all columns together identify a row with NULL" : "key \(names)"
  }
}
