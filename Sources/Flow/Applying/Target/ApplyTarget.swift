import Changes
import Conflicts
import Mapping
import Versions

/// The functions by which the engine-independent parts of apply write rows to a target database.
///
/// All calls belong to apply's open transaction. A row has a value for each column of its table, in order.
protocol ApplyTarget: AnyObject {
  associatedtype Table: ApplyTable
  associatedtype Form: RowForm
  associatedtype Displaced: DisplacedRowStore

  // MARK: The transaction

  var progress: ApplyProgress { get }
  func flush() throws
  /// Runs a body. If it throws, the error is passed on, and the caller may still use the transaction. PostgreSQL undoes
  /// what the body did; SQLite does not.
  func attempt<Result>(_ body: () throws -> Result) throws -> Result

  // MARK: Tables

  /// Opens the target's table for a table of any trail, with the columns and the key that the target's table has. Nil
  /// if there is no such table.
  ///
  /// - Parameter schema: The trail's table. Its definition is untrusted: only its names are used.
  func table(like schema: TableSchema) throws -> Table?
  /// Returns the table extended by the columns that only the target has; nil if there are none.
  func wide(_ table: Table) throws -> Table?
  /// Returns the conversion of rows of any trail to rows of a table.
  func form(of table: Table) -> Form
  func hasReferrers(_ table: Table) throws -> Bool
  /// Returns whether refreshes of the row's table merge the source's rows with the rows that the target has.
  func mergesCopies(at row: ContestedRow) -> Bool

  // MARK: Rows

  /// Returns the row with this key; nil if there is none. Until the transaction ends, no other session can write the
  /// row.
  func row(_ key: [Value], of table: Table) throws -> [Value]?
  /// Writes the row with this key; deletes it if `row` is nil. Columns that are nil keep their values.
  ///
  /// - Returns: False, with nothing written, if another row has the same unique value.
  /// - Throws: An error that names the row, if a constraint refuses it.
  func put(_ row: RowVersion.Row?, _ key: [Value], in table: Table) throws -> Bool
  func isReferred(_ row: [Value], key: [Value], of table: Table) throws -> Bool
  /// Removes and returns the row with this key from the rows that are written at the end of the transaction; nil if
  /// there is none.
  func takeParked(_ key: [Value], of table: Table) throws -> [Value]?
  /// Returns the row with which a database function resolves a conflict of two rows; nil if it returns NULL.
  ///
  /// - Throws: `rule-refused` if the database has no such function, or if the function fails.
  func settle(_ rows: MetRows, by function: String, in table: Table) throws -> RowVersion.Row?

  // MARK: Bookkeeping

  /// The waiting rows of the target.
  var candidates: Displaced { get }
  var decisions: Decisions { get }
  var storedReturns: StoredReturns { get }
  func log(_ record: ConflictRecord) throws
}

protocol ApplyTable: AnyObject {
  /// The table's schema at the target.
  var shape: TableSchema { get }
  var existing: ExistingRows { get }
  var refreshing: Refresh.Method? { get }
  /// Whether a refresh of the table was requested and has not begun. Until then, apply skips its changes.
  var isAwaited: Bool { get }
  /// Whether the table is partitioned. The trail lacks changes of single partitions, such as their TRUNCATE.
  var isPartitioned: Bool { get }
  /// Whether the table is two-way, so that conflicts are resolved row by row.
  var goesBothWays: Bool { get }
  /// Whether two rows may have the same unique value besides the key, so that one becomes a waiting row.
  var isContested: Bool { get }
  /// Whether the table's rule is `insert-only`; nil: not determined yet.
  var takesRowsIn: Bool? { get set }
  /// The columns with the rule `delta`, whose changes are added up, as indexes in the trail's table.
  var summed: [Int] { get set }
}

extension ApplyTable {
  var columnNames: [String] { shape.columns.map(\.name) }

  /// Whether an update or delete may find no row, as during a refresh.
  var mayLackRows: Bool { refreshing != nil || existing != .overwrite }

  /// Whether the target may already have a row that the source inserts.
  var mayHoldRows: Bool { mayLackRows || isPartitioned }

  /// Returns the key of a row in the form of the conflict log: column names with values.
  func key(_ values: [Value]) -> ConflictRow { ConflictRow(shape.key.map { shape.columns[$0].name }, values) }
}

/// The conversion of rows, as any trail has them, to rows of one table of a target.
protocol RowForm {
  var tableName: String { get }
  func version(_ stored: StoredVersion) throws -> RowVersion
  /// Returns the key of the row to which the version belongs. Nil if the trail's table has another key, or if the
  /// version does not contain the key.
  func knownKey(_ stored: StoredVersion) throws -> [Value]?
}

extension RowForm {
  /// Returns the key of the row to which the version belongs.
  ///
  /// - Throws: `trail-damaged` if the trail's table has another key, or if the version does not contain the key.
  func key(_ stored: StoredVersion) throws -> [Value] {
    if let key = try knownKey(stored) { return key }
    throw CairnError(
      .trailDamaged, "a version of a row of table \(tableName) has no key in trail \(stored.stamp.origin)",
      hint: "run 'cairn trail verify \(stored.stamp.origin)'")
  }

  /// Converts versions of rows of any trail.
  ///
  /// Leaves out a version that the table cannot have: the apply of the version's trail reports it.
  func fitting(_ stored: [StoredVersion]) -> [(key: [Value], version: RowVersion, stored: StoredVersion)] {
    stored.compactMap { one in
      guard let key = try? knownKey(one), let version = try? version(one) else { return nil }
      return (key, version, one)
    }
  }

  func isSame(_ a: [Value], _ b: [Value]) -> Bool { zip(a, b).allSatisfy { $0.isSameKey(as: $1) } }
}
