import Changes
import Mapping
import PostgresKit

// Copies of tables in which a unique index may treat two values of the source as equal, such as spellings of a UUID.
// Neither of two such rows replaces the other.
extension PostgresReplay {
  /// Returns whether the refreshed table began empty, and the target may treat the source's different values as equal.
  func isFilled(_ table: PostgresApplyTable) -> Bool {
    let state = table.state
    return table.mayFold && state.refreshing == .byKey && state.isEmptied && state.existing == .overwrite
      && table.removal == .applied && !table.localWrites.areSettled && table.source.treatment?.isHistory != true
  }

  /// Returns whether the refreshed table began empty, the target may treat different values as equal, and the chunk
  /// repeats no row of an earlier chunk.
  func isExact(_ table: PostgresApplyTable) -> Bool { !isReread && isFilled(table) }

  private func sourceKey(_ image: ImageView, _ table: PostgresApplyTable) throws -> [UInt8] {
    let values = try image.values()
    var key = ByteWriter(capacity: 64)
    for index in table.key where table.positions[index] < values.count { key.append(values[table.positions[index]]) }
    return Array(key.bytes)
  }

  // MARK: Rows of the copy

  /// Writes the rows of one COPY statement again, one by one, after one of them had a unique value of another row.
  func writePieceAgain(_ table: PostgresApplyTable) throws {
    try connection.execute("SAVEPOINT cairn_piece")
    do {
      try forEachRowOfPiece(table) { image in
        if outOfOrderRows.contains(try sourceKey(image, table), of: table.stateKey) { return try insertInPlace(table) }
        try write(table, .insert(.keeping), expecting: 1)
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
    var rows = ByteReader(piece.bytes)
    while !rows.isAtEnd {
      let image = try rows.readImage()
      before.removeAll()
      try encode(image, into: &after, table, isNew: true)
      try body(image)
    }
  }

  func insertCopied(_ image: ImageView, _ table: PostgresApplyTable) throws {
    if outOfOrderRows.contains(try sourceKey(image, table), of: table.stateKey) { return try insertInPlace(table) }
    do {
      let strict = PostgresApplyTable.Shape.insert(.strict)
      let count =
        isCareful ? try write(table, strict, expecting: 1) : try sink.run(table.statement(strict), before, after)
      guard count == 1 else { throw swallowed(table) }
    } catch let error as PostgresError where error.isUniqueness {
      // A change of an earlier run may have written the row.
      if !outOfOrderRows.isComplete(table.stateKey), try isThereAsItIs(table) { return }
      throw folded(image, table, error)
    } catch let error as PostgresError {
      throw isCareful ? refusal(table, error) : PostgresSink.Fault(error: error)
    }
  }

  private func isThereAsItIs(_ table: PostgresApplyTable) throws -> Bool {
    before.assign(after.strings)
    defer { before.removeAll() }
    let found = try sink.rows(table.statement(.probe(checks: ColumnMask(table.columns.indices))), before, after)
    return found.first.map { $0.allSatisfy { $0 == "t" } } ?? false
  }

  // MARK: Changes during the copy

  func insertInFilled(_ image: ImageView, _ table: PostgresApplyTable) throws {
    try checkWhole(table)
    table.hasNewKeys = true
    let key = try sourceKey(image, table)
    if outOfOrderRows.contains(key, of: table.stateKey) { return try insertInPlace(table) }
    outOfOrderRows.note(key, of: table.stateKey)
    try insertStrictly(table)
  }

  /// Updates a row while its table is refreshed. If the target lacks the row, the refresh brings it, unless the
  /// update changes the key. Such an update inserts the row.
  func updateInFilled(_ change: ChangeView, _ table: PostgresApplyTable) throws {
    guard !isTwin(table), let old = change.before, let new = change.after else { return try updateLeniently(table) }
    var image = ByteWriter(capacity: 256)
    for (was, now) in zip(try old.values(), try new.values()) { image.append(now ?? was) }
    let key = try sourceKey(ImageView(bytes: image.bytes), table)
    let isMoved = table.key.contains { after.gives($0) && before.gives($0) && !before.isEqual($0, to: after) }
    let isEarly = outOfOrderRows.contains(try sourceKey(old, table), of: table.stateKey)
    if isMoved || isEarly { outOfOrderRows.note(key, of: table.stateKey) }
    guard isMoved, table.columns.indices.allSatisfy({ after.gives($0) || before.gives($0) }) else {
      return try writeLeniently(table, shape(table, changed(table), .init()))
    }
    fillAfter(table)
    try writeLeniently(table, .delete(checks: .init()))
    try insertStrictly(table)
  }

  // MARK: The error

  static let foldedHint =
    "the source may have two rows whose keys are one value at the target, such as two spellings of a UUID: make them one row there"

  private func folded(_ image: ImageView, _ table: PostgresApplyTable, _ error: PostgresError) -> CairnError {
    let index = table.target.uniqueIndexes.firstIndex { $0.name.hasSameBytes(as: error.constraint) }
    let columns = index.flatMap(table.positions(of:)) ?? table.key
    let row = spelled(image, columns, table)
    let other = (try? otherRow(than: image, columns, table)).map { "row \($0)" } ?? "another row"
    return CairnError(
      .rowExists,
      "table \(table.source.fullName), row \(row): the source has \(other) as well, and both are the same row at the target \(connection.place): \(error.detail.isEmpty ? error.message : error.detail) (trail \(name) at \(reader.position))",
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
    let wanted = columns.map { after.string($0) }
    let terms = columns.enumerated().map { place, index in
      let column = table.columns[index]
      let second = columns.count + place + 1
      return "$\(place + 1)::\(column.castType) \(column.equality) $\(second)::\(column.castType)"
    }
    let question = "SELECT 1 WHERE \(terms.joined(separator: " AND "))"
    var rows = ByteReader(piece.bytes)
    var row = RowText()
    while !rows.isAtEnd {
      let other = try rows.readImage()
      if other.bytes.baseAddress == image.bytes.baseAddress { return nil }
      try encode(other, into: &row, table, isNew: false)
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
