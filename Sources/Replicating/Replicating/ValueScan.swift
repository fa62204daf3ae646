import Changes
import Mapping
import SQLiteKit
import SystemKit

/// A look at the rows of a table of an SQLite source for values that do not fit their columns in PostgreSQL. Reads
/// only, within a limit of rows and of time.
///
///     let scan = try ValueScan(mapping, in: database, created: true).run(limits)
///     scan.findings.first?.value   // "'n/a'"
package struct ValueScan {
  /// The limits of a scan.
  ///
  ///     ValueScan.Limits(rows: 1000, deadline: Clock.monotonicMilliseconds + 5000)
  package struct Limits: Sendable {
    /// The number of rows of each table.
    package var rows: Int
    /// The end of all scans, in ms of the monotonic clock.
    package var deadline: Int64
    package init(rows: Int, deadline: Int64) { (self.rows, self.deadline) = (rows, deadline) }
  }

  /// The values of one column that do not fit, with the first of them.
  package struct Finding: Equatable, Sendable {
    @ByBytes package var column: String
    package var rows: Int
    /// The key of the first such row in words, such as `id=7`.
    @ByBytes package var key: String
    @ByBytes package var value: String
    @ByBytes package var reason: String
    /// The policies that take such values, besides a correction at the source.
    package var policies: [MisfitPolicy]
  }

  package struct Outcome: Equatable, Sendable {
    /// The number of rows that were read.
    package var rows = 0
    /// Whether the table has no other rows.
    package var isWhole = false
    /// The columns with values that do not fit, in the order of the table.
    package var findings: [Finding] = []
  }

  private let mapping: TableMapping
  private let database: Database
  private let converters: [PostgresText]
  private let policies: [[MisfitPolicy]]

  /// - Parameter created: Whether Cairn will create the table at the target.
  package init(_ mapping: TableMapping, in database: Database, created: Bool) {
    let (source, target) = (mapping.source, mapping.target)
    (self.mapping, self.database) = (mapping, database)
    let unique = Set(source.key + source.uniques.joined())
    converters = source.columns.indices.map { index in
      PostgresText(
        from: source.columns[index], of: .sqlite, to: PostgresType(target.columns[index]),
        isUnique: unique.contains(index))
    }
    let isKeyless = source.flags.contains(.wholeRow)
    policies = source.columns.indices.map { index in
      let isKey = isKeyless || source.key.contains(index)
      let isText = PostgresType(target.columns[index]).kind == .text
      return (isKey || target.columns[index].isNotNull ? [] : [.null]) + (isKey || isText || !created ? [] : [.widen])
    }
  }

  /// Reads rows until a limit is reached.
  package func run(_ limits: Limits) throws -> Outcome {
    let names = mapping.source.columns.map(\.name.quotedName).joined(separator: ", ")
    let statement = try database.prepare("SELECT \(names) FROM \(mapping.source.name.quotedName)")
    defer { statement.reset() }
    var outcome = Outcome()
    var found: [Int: Finding] = [:]
    var text = ByteWriter(capacity: 256)
    while try statement.step() {
      guard outcome.rows < limits.rows, Clock.monotonicMilliseconds < limits.deadline else {
        outcome.findings = found.sorted { $0.key < $1.key }.map(\.value)
        return outcome
      }
      outcome.rows += 1
      for index in converters.indices {
        let value = statement.view(index)
        if case .null = value { continue }
        text.removeAll()
        do throws(Misfit) { try converters[index].append(value, to: &text) } catch {
          var finding = found[index] ?? finding(index, statement, error)
          finding.rows += 1
          if finding.policies.contains(.widen), !isText(value, index) { finding.policies.removeAll { $0 == .widen } }
          found[index] = finding
        }
      }
      text.shrink(above: 1 << 20)
    }
    outcome.isWhole = true
    outcome.findings = found.sorted { $0.key < $1.key }.map(\.value)
    return outcome
  }

  /// Returns whether a column of the type text could hold a value. It holds no blobs.
  private func isText(_ value: ColumnView, _ index: Int) -> Bool {
    let type = PostgresType(TableSchema.Column(name: "", declaredType: "text"))
    var text = ByteWriter(capacity: 64)
    do throws(Misfit) {
      try PostgresText(from: mapping.source.columns[index], of: .sqlite, to: type).append(value, to: &text)
      return true
    } catch { return false }
  }

  private func finding(_ index: Int, _ statement: Statement, _ misfit: Misfit) -> Finding {
    let source = mapping.source
    let key = source.key.isEmpty ? Array(source.columns.indices.prefix(3)) : source.key
    let shown = key.map { "\(source.columns[$0].name)=\(statement.value($0).shown)" }.joined(separator: ", ")
    return Finding(
      column: source.columns[index].name, rows: 0, key: shown, value: statement.value(index).shown,
      reason: misfit.reason, policies: policies[index])
  }
}
