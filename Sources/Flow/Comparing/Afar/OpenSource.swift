import Capturing
import Changes
import Mapping
import PostgresKit
import SQLiteKit
import Trails

/// An open connection to a source, for the questions of other nodes. Only one thread at a time may use the connection.
final class OpenSource {
  let database: CompareDatabase
  private let place: CompareEnds.Place
  private let statementMilliseconds: Int64
  private var known: [CompareDatabase.Table] = []

  /// Opens the database.
  ///
  /// - Parameter statementMilliseconds: The time limit of one statement in PostgreSQL, ms.
  init(_ place: CompareEnds.Place, statementMilliseconds: Int64) throws {
    (self.place, self.statementMilliseconds) = (place, statementMilliseconds)
    switch place {
    case .sqlite(let path):
      database = try CompareDatabase(.sqlite(OwnTables.openChecked(path, isReader: true)))
    case .postgres(let uri):
      database = try CompareDatabase(.postgres(PostgresConnection(uri, application: "cairn compare")))
    case .origin:
      throw CairnError(
        .bug, "a source of another node answered a question of this node", hint: "please report this", remedy: .bug)
    }
  }

  private func reader(seed: UInt64) throws -> any RowReader {
    switch database.handle {
    case .postgres(let connection):
      let reader = try PostgresRowReader(connection, .source, seed: seed)
      try connection.execute("SET statement_timeout = \(statementMilliseconds)")
      return reader
    case .sqlite(let file): return SQLiteRowReader(file, .source, seed: seed)
    case .origin: throw CairnError(.bug, "a source of another node", hint: "please report this", remedy: .bug)
    }
  }

  /// Calls `body`, and interrupts its SQLite statement after `milliseconds`. For PostgreSQL, the limit that `init` got
  /// applies instead.
  func within<T>(milliseconds: Int64, _ body: () throws -> T) throws -> T {
    guard case .sqlite(let file) = database.handle else { return try body() }
    return try file.within(milliseconds: milliseconds, body)
  }

  static func isTimeout(_ error: any Error) -> Bool {
    (error as? SQLiteError)?.isInterrupted == true || (error as? PostgresError)?.isCancelled == true
  }

  func ends(_ trail: TrailName) throws -> FlightEnds {
    let reader = try reader(seed: 0)
    return FlightEnds(source: reader, target: reader, trail: trail)
  }

  /// Returns the captured tables.
  ///
  /// - Parameter isFresh: Whether to read them from the database. If not, tables from an earlier call may be returned.
  func tables(_ patterns: TablePatterns, isFresh: Bool) throws -> [OriginTable] {
    if isFresh || known.isEmpty { known = try database.tables(patterns) }
    return known.map { table in
      let end = table.end([])
      return OriginTable(
        name: table.name, schema: table.schema, refusal: table.refusal, rowidName: end.rowidName,
        isPartitioned: end.isPartitioned, sortsBackwards: database.sortsBackwards(end))
    }
  }

  /// Returns the table that a question names, with the columns of the question, and a reader of its rows.
  ///
  /// - Throws: `table-missing` if the table is not captured, or if its definition is not the one that the question
  ///   names.
  func table(_ asked: QuestionedTable, _ patterns: TablePatterns) throws -> (ComparedTable, any RowReader) {
    func find() -> CompareDatabase.Table? {
      known.first {
        $0.refusal == nil && $0.schema.namespace.hasSameBytes(as: asked.namespace)
          && $0.schema.name.hasSameBytes(as: asked.name) && $0.schema.comparedShape == asked.shape
      }
    }
    if find() == nil { known = try database.tables(patterns) }
    guard let table = find() else {
      throw CairnError(
        .tableMissing, "table \(asked.name) is not captured here, or was altered meanwhile",
        hint: "compare again", remedy: .retry, context: ["table": asked.name])
    }
    let fits =
      !asked.columns.isEmpty && asked.columns.count == asked.targetColumns.count
      && Set(asked.columns).count == asked.columns.count
      && asked.columns.allSatisfy(table.schema.columns.indices.contains)
      && asked.targetColumns.allSatisfy(asked.target.columns.indices.contains)
    guard fits else {
      throw CairnError(
        .usage, "the columns in a question do not match the table", hint: "see docs/reference/protocol.md",
        remedy: .badInput)
    }
    let there = TableEnd(schema: asked.target, columns: asked.targetColumns, sqlName: "")
    return (
      ComparedTable(name: table.name, source: table.end(asked.columns), target: there), try reader(seed: asked.seed)
    )
  }

  /// Asks the capture of the source to send rows again, over a new connection that may write.
  func ask(_ request: RowRequest, for trail: TrailPlace) throws {
    switch place {
    case .sqlite(let path): try Journal(OwnTables.openChecked(path, isReader: false)).ask(request)
    case .postgres(let uri):
      try PostgresSource.ask(request, on: PostgresConnection(uri), trail: Trail.info(folder: trail.folder).id)
    case .origin: break
    }
  }

  func askForCopy(of table: String, namespace: String, for trail: TrailPlace) throws {
    switch place {
    case .sqlite(let path): try Journal(OwnTables.openChecked(path, isReader: false)).askForCopy(of: table)
    case .postgres(let uri):
      try PostgresSource.askForCopy(
        of: table, namespace: namespace, on: PostgresConnection(uri), trail: Trail.info(folder: trail.folder).id)
    case .origin: break
    }
  }
}
