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
  /// Runs a body. If it fails, what it did is undone, and the transaction goes on.
  func attempt<Result>(_ body: () throws -> Result) throws -> Result

  // MARK: Tables

  /// Returns the table that has rows of this shape, whichever trail brings them; nil if there is none.
  func table(like schema: TableSchema) throws -> Table?
  /// Returns the table with the columns that only the target has, which applications may have written; nil if there
  /// are none.
  func wide(_ table: Table) throws -> Table?
  /// Returns the conversion of rows of any trail to rows of a table.
  func form(of table: Table) -> Form
  /// Returns whether foreign keys reference the table.
  func hasReferrers(_ table: Table) throws -> Bool
  /// Returns whether copies of the row's table merge their rows with the present rows.
  func mergesCopies(at row: ContestedRow) -> Bool

  // MARK: Rows

  /// Returns the row with a key, which no session writes until the commit; nil if there is none.
  func row(_ key: [Value], of table: Table) throws -> [Value]?
  /// Writes the row with a key; nil: deletes it. Columns that are nil keep their values.
  ///
  /// - Returns: False, and nothing is written, if another row has one of its unique values.
  /// - Throws: an error that names the row, if a constraint refuses it.
  func put(_ row: RowVersion.Row?, _ key: [Value], in table: Table) throws -> Bool
  /// Returns whether another row references this row.
  func isReferred(_ row: [Value], key: [Value], of table: Table) throws -> Bool
  /// Removes and returns a row that waits for the end of its transaction, as it is meant to be; nil if none waits.
  func takeHeld(_ key: [Value], of table: Table) throws -> [Value]?
  /// Returns the row that a function of the database makes of two rows; nil if the function settles nothing.
  ///
  /// - Throws: `rule-refused`.
  func settle(_ rows: MetRows, by function: String, in table: Table) throws -> RowVersion.Row?

  // MARK: Bookkeeping

  /// The rows that wait because a later row has one of their unique values.
  var candidates: Displaced { get }
  var decisions: Decisions { get }
  /// The rows that waited and are back in their tables.
  var storedReturns: StoredReturns { get }
  func log(_ record: ConflictRecord) throws
}

/// A table of a target, as the engine-independent parts of apply see it.
protocol ApplyTable: AnyObject {
  /// The table's name at the target, its columns in the order of rows, and its key.
  var shape: TableSchema { get }
  /// The policy for rows that the table already held before its first copy.
  var existing: ExistingRows { get }
  /// The method of the copy in progress; nil: none.
  var refreshing: Refresh.Method? { get }
  /// Whether the table is partitioned: the trail leaves out what happens to single partitions.
  var isPartitioned: Bool { get }
  /// Whether both ends write rows, so that conflicts are resolved row by row.
  var goesBothWays: Bool { get }
  /// Whether rows may clash in unique values besides the key. No row is replaced for that: it is judged which one
  /// waits.
  var isContested: Bool { get }
  /// Whether this direction only adds rows, and changes none that is there (`insert-only`); nil: not looked up yet.
  var takesRowsIn: Bool? { get set }
  /// The indexes, in the trail's table, of the columns whose changes are summed (`delta`).
  var summed: [Int] { get set }
}

extension ApplyTable {
  var columnNames: [String] { shape.columns.map(\.name) }

  /// Whether an update or delete may find no row: during a copy, or after a first copy that kept the present rows.
  var mayLackRows: Bool { refreshing != nil || existing != .overwrite }

  /// Whether an insert may find its row there already. The trail does not report `TRUNCATE` of one partition, so its
  /// rows may remain.
  var mayHoldRows: Bool { mayLackRows || isPartitioned }

  /// Returns the key of a row as the conflict log and waiting rows name it.
  func key(_ values: [Value]) -> ConflictRow { ConflictRow(shape.key.map { shape.columns[$0].name }, values) }
}

/// The conversion of rows, as any trail has them, to rows of one table of a target.
protocol RowForm {
  func version(_ stored: StoredVersion) throws -> RowVersion
  /// Returns the key of the row to which the version belongs.
  ///
  /// - Throws: `trail-damaged` if the version does not give it.
  func key(_ stored: StoredVersion) throws -> [Value]
}

extension RowForm {
  /// Returns whether two keys name the same row.
  func isSame(_ a: [Value], _ b: [Value]) -> Bool { zip(a, b).allSatisfy { $0.isSameKey(as: $1) } }
}
