import Changes
import Mapping
import PostgresKit

/// The rows of a refresh that are sent together by COPY.
///
/// If one of them collides with another row, the COPY is undone and its rows are written one by one. In a table in
/// which a unique index may treat two values of the source as equal, neither of two such rows replaces the other.
final class PostgresCopy {
  /// The maximum size of the rows that apply sends by COPY before it reads the server's answer, in bytes.
  private static let pieceBytesMax = 4 << 20

  private let session: PostgresSession
  private let rows: PostgresRows
  /// The rows that COPY has sent since the server's last answer, to send them again one by one after an error.
  private var piece = ByteWriter(capacity: 1 << 16)
  private var table: PostgresApplyTable?

  init(_ rows: PostgresRows) { (session, self.rows) = (rows.session, rows) }

  private var connection: PostgresConnection { session.connection }
  private var sink: PostgresSink { session.sink }
  private var reader: ApplyReader { session.reader }
  private var isCareful: Bool { session.isCareful }
  private var writer: PostgresRowWriter { rows.writer }
  private var texts: RowTexts { rows.writer.texts }
  private var errors: PostgresRowErrors { rows.writer.errors }
  private var encoder: PostgresRowEncoder { rows.writer.encoder }

  /// Ends the COPY of another table, or of any table if the next row `isAlone`.
  func end(before table: PostgresApplyTable, isAlone: Bool) throws {
    if let other = self.table, other !== table || isAlone { try endPiece() }
  }

  /// Sends the row whose text was made of `image`.
  func send(_ image: ImageView, into table: PostgresApplyTable) throws {
    if self.table == nil {
      try sink.settle()
      try connection.execute("SAVEPOINT cairn_piece")
      self.table = table
    }
    try sink.copy(texts.after, into: table)
    piece.appendCounted(image.bytes)
    if piece.count > Self.pieceBytesMax { try endPiece() }
  }

  /// Ends a COPY of rows and reads the server's answer. If one of the rows collides with another row, undoes the COPY
  /// and writes its rows one by one.
  ///
  /// - Throws: `row-exists` if the two rows may both be from the present refresh.
  func endPiece() throws {
    guard let table else { return }
    self.table = nil
    defer {
      piece.removeAll()
      piece.shrink(above: 8 << 20)
    }
    do {
      try sink.settle()
      try connection.execute("RELEASE cairn_piece")
    } catch let fault as PostgresSink.Fault where fault.error?.isUniqueness == true && !table.isWholeRow {
      try connection.executeScript("ROLLBACK TO cairn_piece; RELEASE cairn_piece")
      let counted = encoder.misfitsNulled
      defer { encoder.misfitsNulled = counted }
      if writer.isExact(table) { return try writePieceAgain(table) }
      var images = ByteReader(piece.bytes)
      while !images.isAtEnd {
        texts.before.removeAll()
        try encoder.encode(try images.readImage(), into: &texts.after, table, isNew: true)
        try writer.insertInPlace(table)
      }
    }
  }

  /// Ends the COPY, and queues the check that a table's code is unchanged: once per group, before the group's first row
  /// of the table.
  func look(_ watch: OwnersWatch) throws {
    guard session.isDue(watch) else { return }
    try endPiece()
    try session.look(watch)
  }

  // MARK: Rows one by one

  /// Writes the rows of one COPY statement again, one by one, after one of them had a unique value of another row.
  func writePieceAgain(_ table: PostgresApplyTable) throws {
    try connection.execute("SAVEPOINT cairn_piece")
    do {
      try forEachRowOfPiece(table) { image in
        if rows.outOfOrderRows.contains(try table.sourceKey(image), of: table.stateKey) {
          return try writer.insertInPlace(table)
        }
        try writer.write(table, .insert(.keeping), expecting: 1)
      }
      try sink.settle()
      try connection.execute("RELEASE cairn_piece")
    } catch let fault as PostgresSink.Fault where fault.error == nil {
      while try !readAnswers() {}
      try connection.executeScript("ROLLBACK TO cairn_piece; RELEASE cairn_piece")
      try forEachRowOfPiece(table) { try insertCopied($0, table) }
    }
  }

  private func readAnswers() throws -> Bool {
    do { try sink.settle() } catch let fault as PostgresSink.Fault where fault.error == nil { return false }
    return true
  }

  private func forEachRowOfPiece(_ table: PostgresApplyTable, _ body: (ImageView) throws -> Void) throws {
    var images = ByteReader(piece.bytes)
    while !images.isAtEnd {
      let image = try images.readImage()
      texts.before.removeAll()
      try encoder.encode(image, into: &texts.after, table, isNew: true)
      try body(image)
    }
  }

  func insertCopied(_ image: ImageView, _ table: PostgresApplyTable) throws {
    if rows.outOfOrderRows.contains(try table.sourceKey(image), of: table.stateKey) {
      return try writer.insertInPlace(table)
    }
    do {
      let strict = PostgresApplyTable.Shape.insert(.strict)
      let count =
        isCareful
        ? try writer.write(table, strict, expecting: 1)
        : try sink.run(table.statement(strict), texts.before, texts.after)
      guard count == 1 else { throw errors.swallowed(table) }
    } catch let error as PostgresError where error.isUniqueness {
      // A change of an earlier run may have written the row.
      if !rows.outOfOrderRows.isComplete(table.stateKey), try isThereAsItIs(table) { return }
      throw folded(image, table, error)
    } catch let error as PostgresError {
      throw isCareful ? errors.refusal(table, error) : PostgresSink.Fault(error: error)
    }
  }

  private func isThereAsItIs(_ table: PostgresApplyTable) throws -> Bool {
    texts.before.assign(texts.after.strings)
    defer { texts.before.removeAll() }
    let found = try sink.rows(
      table.statement(.probe(checks: ColumnMask(table.columns.indices))), texts.before, texts.after)
    return found.first.map { $0.allSatisfy { $0 == "t" } } ?? false
  }

  private func folded(_ image: ImageView, _ table: PostgresApplyTable, _ error: PostgresError) -> CairnError {
    let index = table.target.uniqueIndexes.firstIndex { $0.name.hasSameBytes(as: error.constraint) }
    let columns = index.flatMap(table.positions(of:)) ?? table.key
    let row = spelled(image, columns, table)
    let other = (try? otherRow(than: image, columns, table)).map { "row \($0)" } ?? "another row"
    return CairnError(
      .rowExists,
      "table \(table.source.fullName), row \(row): the source has \(other) as well, and both are the same row at the target \(connection.place): \(error.detail.isEmpty ? error.message : error.detail) (trail \(session.name) at \(reader.position))",
      hint:
        "merge the two rows at the source, or create the table with a column of type text and a deterministic collation at the target; then copy it again: \(CopyHint.either)",
      context: ["table": table.source.fullName, "key": row, "position": reader.position.description])
  }

  private func spelled(_ image: ImageView, _ columns: [Int], _ table: PostgresApplyTable) -> String {
    let values = (try? image.values()) ?? []
    return columns.map { index in
      let place = table.positions[index]
      let value = place < values.count ? values[place]?.shown ?? "?" : "?"
      return "\(table.source.columns[index].name)=\(value)"
    }.joined(separator: ", ")
  }

  private func otherRow(than image: ImageView, _ columns: [Int], _ table: PostgresApplyTable) throws -> String? {
    let wanted = columns.map { texts.after.string($0) }
    let terms = columns.enumerated().map { place, index in
      let column = table.columns[index]
      let second = columns.count + place + 1
      return "$\(place + 1)::\(column.castType) \(column.equality) $\(second)::\(column.castType)"
    }
    let question = "SELECT 1 WHERE \(terms.joined(separator: " AND "))"
    var images = ByteReader(piece.bytes)
    var row = RowText()
    while !images.isAtEnd {
      let other = try images.readImage()
      if other.bytes.baseAddress == image.bytes.baseAddress { return nil }
      try encoder.encode(other, into: &row, table, isNew: false)
      let values = columns.map { row.gives($0) ? row.string($0) : nil }
      guard values != wanted else { return spelled(other, columns, table) }
      if try connection.first(question, values + wanted) != nil { return spelled(other, columns, table) }
    }
    return nil
  }
}

extension PostgresApplyTable {
  /// Returns whether a unique index of the target may treat two different values of the source as equal.
  ///
  /// The trail has only the name of a collation. One of the same name at the target may be nondeterministic.
  func folds(_ index: Int) -> Bool {
    guard let positions = positions(of: index) else { return false }
    return target.uniqueIndexes[index].isLoose || positions.contains { converters[$0].mayFold }
  }
}
