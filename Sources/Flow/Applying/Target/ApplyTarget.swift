import Changes
import Conflicts
import Mapping
import Versions

/// The functions by which the engine-independent parts of apply write rows to a target database.
///
/// All calls belong to the open transaction of the target. A row is a value for each column of its table, in the
/// table's order.
protocol ApplyTarget: AnyObject {
  associatedtype Table: ApplyTable
  associatedtype Form: RowForm
  associatedtype Displaced: CandidateStore

  // MARK: The transaction

  /// Waits for the answers to all statements that were sent. An engine that answers at once has nothing to do.
  func flush() throws
  /// Runs a body. If the body throws, its changes are undone, and the transaction continues.
  func attempt<Result>(_ body: () throws -> Result) throws -> Result

  // MARK: Tables

  /// Returns the target table for rows with this schema, from any trail; nil if there is none.
  func table(like schema: TableSchema) throws -> Table?
  /// Returns the table extended by the columns that only the target has; nil if there are no such columns.
  func wide(_ table: Table) throws -> Table?
  /// Returns the conversion of rows of any trail to rows of a table.
  func form(of table: Table) -> Form
  /// Returns whether foreign keys reference the table.
  func hasReferrers(_ table: Table) throws -> Bool
  /// Returns whether a copy of the row's table merges the source's rows with the rows that the target has.
  func mergesCopies(at row: ContestedRow) -> Bool

  // MARK: Rows

  /// Returns the row with this key, and keeps other sessions from writing it until the commit; nil if there is none.
  func row(_ key: [Value], of table: Table) throws -> [Value]?
  /// Writes the row with this key. If `row` is nil, deletes the row. Columns that are nil keep their values.
  ///
  /// - Returns: False, and nothing is written, if another row has the same unique value.
  /// - Throws: An error that names the row, if a constraint refuses the row.
  func put(_ row: RowVersion.Row?, _ key: [Value], in table: Table) throws -> Bool
  /// Returns whether another row references this row by a foreign key.
  func isReferred(_ row: [Value], key: [Value], of table: Table) throws -> Bool
  /// Removes and returns the row with this key from the rows that are held until the end of the transaction; nil if
  /// there is none.
  func takeHeld(_ key: [Value], of table: Table) throws -> [Value]?
  /// Returns the row with which a function of the database resolves a conflict of two rows; nil if the function returns
  /// NULL.
  ///
  /// - Throws: `rule-refused`.
  func settle(_ rows: MetRows, by function: String, in table: Table) throws -> RowVersion.Row?

  // MARK: Bookkeeping

  /// The waiting rows of the target: those kept outside their tables because other rows have the same unique values.
  var candidates: Displaced { get }
  var decisions: Decisions { get }
  /// The rows that waited for a unique value and are back in their tables.
  var storedReturns: StoredReturns { get }
  func log(_ record: ConflictRecord) throws
}

/// A table of a target, as the engine-independent parts of apply see it.
protocol ApplyTable: AnyObject {
  /// The table's schema at the target: its name, its key, and its columns in the order in which rows have them.
  var shape: TableSchema { get }
  /// The policy for rows that the table already held before its first copy.
  var existing: ExistingRows { get }
  /// The method of the copy in progress; nil: none.
  var refreshing: Refresh.Method? { get }
  /// Whether the table is partitioned. The trail does not show changes that are made to single partitions, such as
  /// TRUNCATE.
  var isPartitioned: Bool { get }
  /// Whether replication of the table is two-way, so that conflicts are resolved row by row.
  var goesBothWays: Bool { get }
  /// Whether two rows may have the same unique value besides the key. If so, ``RowResolver`` decides which one becomes
  /// a waiting row; no row is overwritten.
  var isContested: Bool { get }
  /// Whether the table's rule is `insert-only`, so that this direction adds rows and changes none; nil: not looked up
  /// yet.
  var takesRowsIn: Bool? { get set }
  /// The columns with the rule `delta`, whose changes are added up, as indexes in the trail's table.
  var summed: [Int] { get set }
}

extension ApplyTable {
  var columnNames: [String] { shape.columns.map(\.name) }

  /// Whether an update or delete may find no row: during a copy, or after a first copy that kept the present rows.
  var mayLackRows: Bool { refreshing != nil || existing != .overwrite }

  /// Whether an insert may find a row with its key. The trail does not show `TRUNCATE` of a single partition, so rows
  /// of that partition may still be there.
  var mayHoldRows: Bool { mayLackRows || isPartitioned }

  /// Returns the key of a row in the form of the conflict log: column names with values.
  func key(_ values: [Value]) -> ConflictRow { ConflictRow(shape.key.map { shape.columns[$0].name }, values) }
}

/// The conversion of rows, as any trail has them, to rows of one table of a target.
protocol RowForm {
  func version(_ stored: StoredVersion) throws -> RowVersion
  /// Returns the key of the row to which the version belongs.
  ///
  /// - Throws: `trail-damaged` if the version does not contain the key.
  func key(_ stored: StoredVersion) throws -> [Value]
}

extension RowForm {
  /// Returns whether two keys identify the same row.
  func isSame(_ a: [Value], _ b: [Value]) -> Bool { zip(a, b).allSatisfy { $0.isSameKey(as: $1) } }
}
