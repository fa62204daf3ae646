import Changes
import Conflicts
import Endpoints
import Mapping
import SystemKit

extension Synchronizer.Options {
  /// Returns the conflict rules that these options describe.
  /// - Throws: ``SynchronizationError`` of kind `rule`, with the invalid rule.
  func conflictPlan() throws -> ConflictPlan {
    var tables: [NameKey: [NameKey: ConflictRules.Rule]] = [:]
    for (name, text) in columnConflicts {
      guard let (table, column) = name.cut(atLast: "."), !table.isEmpty, !column.isEmpty else {
        throw refused("'\(name)' is no column", "write TABLE.COLUMN")
      }
      tables[table, default: [:]][column] = try rule(text, name)
    }
    let whole = try rule(conflict, "rows")
    guard whole.isForRows else {
      throw refused("'\(conflict)' is not a rule for rows", "use it for a column: TABLE.COLUMN")
    }
    return ConflictPlan(
      .init(rule: whole),
      tables: tables.sorted { $0.key < $1.key }.map { .init(from: $0.key.text, .init(columns: $0.value)) })
  }

  /// Throws an error of kind `rule` if a rule names a column that its table lacks. A table that neither database has is
  /// accepted.
  func checkRules(_ ends: SynchronizedEnds) throws {
    guard !columnConflicts.isEmpty else { return }
    let wanted = try conflictPlan().tables
    var known = try tables(of: ends.own)
    if wanted.contains(where: { known[$0.from.sqliteKey] == nil }) {
      known.merge(try tables(of: ends.peer)) { here, _ in here }
    }
    for table in wanted {
      guard let columns = known[table.from.sqliteKey] else { continue }
      let names = Set(columns.map { $0.sqliteKey })
      guard let column = table.part.columns.keys.sorted().first(where: { !names.contains($0) }) else { continue }
      throw refused(
        "a rule is for column \(column) of table \(table.from), which has no such column",
        "it has \(columns.joined(separator: ", "))")
    }
  }

  /// Returns the column names of all tables of a database, by lower-case table name.
  private func tables(of end: DatabaseURL) throws -> [NameKey: [String]] {
    if case .sqlite(let path) = end, FileIdentity(path: path) == nil { return [:] }
    let tables = try SourceDatabase(end).tables(TablePatterns())
    return Dictionary(tables.map { ($0.schema.plainName.sqliteKey, $0.schema.columns.map(\.name)) }) { first, _ in
      first
    }
  }

  private func rule(_ text: String, _ name: String) throws -> ConflictRules.Rule {
    let rule: ConflictRules.Rule
    do { rule = try ConflictRules.Rule(text) } catch {
      throw refused("'\(text)' is no rule for \(name)", "there are \(ConflictRules.Rule.names.joined(separator: ", "))")
    }
    // These rules name an end, and each direction has another source and target.
    guard ![.source, .target, .insertOnly].contains(rule), !rule.needsDecider else {
      throw refused("'\(text)' has another meaning at each end", "use priority:NODE,NODE")
    }
    return rule
  }

  private func refused(_ what: String, _ hint: String) -> SynchronizationError {
    SynchronizationError(.rule, what, hint: hint)
  }
}
