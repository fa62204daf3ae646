import Changes
import Conflicts
import Mapping
import Versions

/// The writing of rows to a database, as the parts of apply need it that know no engine.
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
  /// The conversion of rows of any trail to rows of a table.
  func form(of table: Table) -> Form
  /// Whether foreign keys lead to the table.
  func hasReferrers(_ table: Table) throws -> Bool
  /// Whether copies of the row's table merge their rows with those that are there.
  func mergesCopies(at row: ContestedRow) -> Bool

  // MARK: Rows

  /// Returns the row with a key, which no session writes until the commit; nil if there is none.
  func row(_ key: [Value], of table: Table) throws -> [Value]?
  /// Writes the row with a key; nil: deletes it. Columns that are nil keep their values.
  ///
  /// - Returns: False, and nothing is written, if another row has one of its unique values.
  /// - Throws: an error that names the row, if a constraint refuses it.
  func put(_ row: RowVersion.Row?, _ key: [Value], in table: Table) throws -> Bool
  /// Whether another row references this one.
  func isReferred(_ row: [Value], key: [Value], of table: Table) throws -> Bool
  /// Removes and returns the row that waits for the end of its transaction, as it is meant to be; nil if none waits.
  func takeHeld(_ key: [Value], of table: Table) throws -> [Value]?
  /// Returns the row that a function of the database makes of two rows; nil if it makes none.
  ///
  /// - Throws: `rule-refused`.
  func settle(_ rows: MetRows, by function: String, in table: Table) throws -> RowVersion.Row?

  // MARK: Bookkeeping

  /// The rows that wait because a later row has one of their unique values.
  var candidates: Displaced { get }
  var decisions: Decisions { get }
  func log(_ record: ConflictRecord) throws
}

/// A table of a target, as the parts of apply see it that know no engine.
protocol ApplyTable: AnyObject {
  /// Its name at the target, its columns in the order of rows, and its key.
  var shape: TableSchema { get }
  /// The policy for rows that the target has already.
  var existing: ExistingRows { get }
  /// The copy that is under way; nil: none.
  var refreshing: Refresh.Method? { get }
  /// Whether the trail leaves out what happens to single partitions.
  var isPartitioned: Bool { get }
  /// Whether both ends write rows, so that conflicts are resolved row by row.
  var goesBothWays: Bool { get }
  /// Whether rows may clash in unique values besides the key. No row is replaced for that: it is judged which one waits.
  var isContested: Bool { get }
  /// Whether this way only takes rows in, and changes none that is there; nil: not looked up.
  var takesRowsIn: Bool? { get set }
  /// The columns, by their place in the trail, whose changes are summed.
  var summed: [Int] { get set }
}

extension ApplyTable {
  var columnNames: [String] { shape.columns.map(\.name) }

  /// Whether an update or delete may miss its row.
  var mayLackRows: Bool { refreshing != nil || existing != .overwrite }

  /// Whether an insert may find its row there. The trail does not report `TRUNCATE` of one partition, so its rows may
  /// still be there.
  var mayHoldRows: Bool { mayLackRows || isPartitioned }

  /// The key of a row as the conflict log and waiting rows name it.
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
  /// Whether two keys name one row.
  func isSame(_ a: [Value], _ b: [Value]) -> Bool { zip(a, b).allSatisfy { $0.isSameKey(as: $1) } }
}
