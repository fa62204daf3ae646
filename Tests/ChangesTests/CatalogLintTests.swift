import Foundation
import Testing

/// SQL of the code runs on PostgreSQL 14: columns that later versions added are read with `to_jsonb(row) ->> 'name'`.
@Suite struct CatalogLintTests {
  /// Columns, tables and functions of the catalog that PostgreSQL 15 to 18 added.
  static let later = [
    // pg_database, pg_collation
    "datlocprovider", "daticulocale", "daticurules", "datlocale", "datcollversion", "datdathasloginevt",
    "colliculocale", "collicurules", "colllocale",
    // pg_publication and its tables
    "prqual", "prattrs", "pg_publication_namespace", "pnpubid", "pnnspid", "pubgencols", "rowfilter",
    // pg_index, pg_constraint, pg_class, pg_statistic_ext_data
    "indnullsnotdistinct", "confdelsetcols", "conperiod", "conenforced", "relallfrozen", "stxdinherit",
    // pg_subscription
    "subtwophasestate", "subdisableonerr", "subskiplsn", "suborigin", "subpasswordrequired", "subrunasowner",
    "subfailover",
    // pg_replication_slots, views of activity
    "inactive_since", "invalidation_reason", "two_phase_at", "pg_stat_io", "pg_stat_checkpointer",
    "pg_stat_subscription_stats",
    // Rights
    "pg_parameter_acl", "inherit_option", "set_option", "has_parameter_privilege", "pg_get_acl",
    // Functions
    "pg_input_is_valid", "pg_input_error_info", "pg_basetype", "to_regtypemod", "any_value", "array_sample",
    "pg_split_walfile_name", "pg_log_standby_snapshot", "pg_sync_replication_slots",
  ]

  /// Whether SQL in a line names a column or function that PostgreSQL 14 lacks.
  static func names(_ line: String) -> [String] {
    let words = line.split { !$0.isLetter && !$0.isNumber && $0 != "_" }.map(String.init)
    return later.filter { name in
      words.contains(name) && line.replacing("->> '\(name)'", with: "").contains(name)
    }
  }

  @Test func `a line that names a later column is found, one that reads it as JSON is not`() {
    #expect(Self.names("\"SELECT datlocprovider FROM pg_database\"") == ["datlocprovider"])
    #expect(Self.names("r.prqual, to_jsonb(r) ->> 'prqual', r.prattrs") == ["prqual", "prattrs"])
    #expect(Self.names("coalesce(to_jsonb(d) ->> 'datlocprovider', 'c')") == [])
    #expect(Self.names("let prequalified = 1") == [])
  }

  @Test func `no SQL names a column that PostgreSQL 14 lacks`() throws {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appending(path: "Sources")
    let files = try #require(FileManager.default.enumerator(at: root, includingPropertiesForKeys: nil))
    var fileCount = 0
    var readCount = 0
    for case let file as URL in files where file.pathExtension == "swift" {
      fileCount += 1
      // The functions that expressions of a table may call, of every version.
      if file.lastPathComponent == "KnownFunctions.swift" { continue }
      let text = try String(contentsOf: file, encoding: .utf8)
      guard Self.later.contains(where: text.contains) else { continue }
      readCount += 1
      for (number, line) in text.components(separatedBy: "\n").enumerated() {
        if line.drop(while: { $0 == " " }).hasPrefix("//") { continue }
        for name in Self.names(line) {
          Issue.record("\(file.lastPathComponent):\(number + 1) names \(name), which PostgreSQL 14 lacks: \(line)")
        }
      }
    }
    #expect(fileCount > 500)
    #expect(readCount > 3)
  }
}
