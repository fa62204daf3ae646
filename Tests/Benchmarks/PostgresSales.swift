import PostgresKit

/// The table of sales in a PostgreSQL database, written by several methods.
final class PostgresSales {
  let connection: PostgresConnection
  private static let copy = "COPY sale FROM STDIN"

  init(_ url: String) throws {
    connection = try PostgresConnection(url, application: "cairn-bench")
    try connection.execute("SET search_path = public")
  }

  /// Makes the table, with the rows of keys from 1 to `rows`.
  func create(rows: Int, time: String = "timestamptz") throws {
    try connection.executeScript(Sale.schema(.postgres, time: time))
    if rows > 0 { try copy(Self.lines(rows)) }
    try connection.execute("ANALYZE sale")
  }

  /// Returns input for COPY, in pieces.
  static func lines(_ rows: Int) -> [[UInt8]] {
    stride(from: 1, through: rows, by: 5000).map { first in
      var bytes: [UInt8] = []
      for id in first..<min(first + 5000, rows + 1) { Sale(id: id).appendLine(to: &bytes) }
      return bytes
    }
  }

  func copy(_ pieces: [[UInt8]]) throws {
    try connection.beginCopyIn(Self.copy)
    for piece in pieces { _ = try piece.withUnsafeBytes { try connection.sendCopy($0) } }
    try connection.endCopy()
  }

  // MARK: Row by row

  /// Executes a prepared statement for each change, `perTransaction` of them in a transaction, without waiting for
  /// single results.
  func write(_ changes: [SaleChange], perTransaction: Int) throws {
    try connection.enterPipeline()
    defer { try? connection.exitPipeline() }
    try connection.pipe(prepare: "insert", "INSERT INTO sale VALUES ($1, $2, $3, $4, $5)")
    try connection.pipe(prepare: "update", "UPDATE sale SET till = $2, price = $3 WHERE id = $1")
    try connection.pipe(prepare: "delete", "DELETE FROM sale WHERE id = $1")
    var texts = Texts()
    for (number, change) in changes.enumerated() {
      if number % perTransaction == 0 { try connection.pipe("BEGIN", []) }
      texts.fill(with: change)
      try texts.withParameters { try connection.pipe(prepared: change.kind.rawValue, $0) }
      if (number + 1) % perTransaction == 0 || number + 1 == changes.count { try connection.pipe("COMMIT", []) }
      if number % 100 == 99 { try connection.pushPipeline() }
      if number % 1000 == 999 { try connection.drain { _, _ in } }
    }
    try connection.drain { _, _ in }
    try connection.exitPipeline()
    try connection.execute("DEALLOCATE ALL")
  }

  /// The parameters of one statement in libpq's form: each ends with NUL.
  private struct Texts {
    private var bytes: [UInt8] = []
    private var starts: [Int] = []

    mutating func fill(with change: SaleChange) {
      bytes.removeAll(keepingCapacity: true)
      starts.removeAll(keepingCapacity: true)
      let sale = change.sale
      add { $0.append(contentsOf: String(sale.id).utf8) }
      switch change.kind {
      case .insert:
        add { $0.append(contentsOf: String(sale.till).utf8) }
        add { Sale.append(price: sale.id, to: &$0) }
        add { $0.append(contentsOf: sale.item) }
        add { sale.appendTime(to: &$0) }
      case .update:
        add { $0.append(contentsOf: String(sale.changed.till).utf8) }
        add { Sale.append(price: sale.changed.id, to: &$0) }
      case .delete: break
      }
    }

    private mutating func add(_ text: (inout [UInt8]) -> Void) {
      starts.append(bytes.count)
      text(&bytes)
      bytes.append(0)
    }

    func withParameters(_ body: ([PostgresParameter]) throws -> Void) throws {
      try bytes.withUnsafeBufferPointer { buffer in
        guard let base = UnsafeRawPointer(buffer.baseAddress) else { return }
        try body(starts.map { (base + $0).assumingMemoryBound(to: CChar.self) })
      }
    }
  }

  // MARK: In arrays

  /// The changes of one kind as parameters of one statement.
  struct ArrayBatch {
    let kind: SaleChange.Kind
    var parameters: [[UInt8]]
  }

  private static let arrayStatements: [(SaleChange.Kind, String)] = [
    (
      .insert,
      "INSERT INTO sale SELECT * FROM unnest($1::bigint[], $2::integer[], $3::float8[], $4::text[], $5::timestamptz[])"
    ),
    (
      .update,
      """
      UPDATE sale SET till = u.till, price = u.price
      FROM unnest($1::bigint[], $2::integer[], $3::float8[]) AS u(id, till, price) WHERE sale.id = u.id
      """
    ),
    (.delete, "DELETE FROM sale USING unnest($1::bigint[]) AS u(id) WHERE sale.id = u.id"),
  ]

  /// Returns batches of 1,000 changes. Changes of one kind must be contiguous.
  static func batches(_ changes: [SaleChange]) -> [ArrayBatch] {
    var batches: [ArrayBatch] = []
    var count = 0
    for change in changes {
      if batches.last?.kind != change.kind || count == 1000 {
        let width = change.kind == .insert ? 5 : change.kind == .update ? 3 : 1
        batches.append(ArrayBatch(kind: change.kind, parameters: Array(repeating: [UInt8(ascii: "{")], count: width)))
        count = 0
      }
      append(change, to: &batches[batches.count - 1].parameters, isFirst: count == 0)
      count += 1
    }
    for index in batches.indices {
      for column in batches[index].parameters.indices { batches[index].parameters[column] += Array("}\0".utf8) }
    }
    return batches
  }

  private static func append(_ change: SaleChange, to columns: inout [[UInt8]], isFirst: Bool) {
    if !isFirst { for column in columns.indices { columns[column].append(UInt8(ascii: ",")) } }
    let sale = change.sale
    columns[0].append(contentsOf: String(sale.id).utf8)
    guard change.kind != .delete else { return }
    let values = change.kind == .update ? sale.changed : sale
    columns[1].append(contentsOf: String(values.till).utf8)
    Sale.append(price: values.id, to: &columns[2])
    guard change.kind == .insert else { return }
    let quote = UInt8(ascii: "\"")
    columns[3].append(quote)
    columns[3].append(contentsOf: sale.item)
    columns[3].append(quote)
    columns[4].append(quote)
    sale.appendTime(to: &columns[4])
    columns[4].append(quote)
  }

  /// A statement and a transaction for each batch.
  func write(_ batches: [ArrayBatch]) throws {
    try connection.enterPipeline()
    defer { try? connection.exitPipeline() }
    for (kind, sql) in Self.arrayStatements { try connection.pipe(prepare: kind.rawValue, sql) }
    for batch in batches {
      try Self.withPointers(batch.parameters[...], []) { try connection.pipe(prepared: batch.kind.rawValue, $0) }
      try connection.drain { _, _ in }
    }
    try connection.exitPipeline()
    try connection.execute("DEALLOCATE ALL")
  }

  private static func withPointers(
    _ texts: ArraySlice<[UInt8]>, _ pointers: [PostgresParameter], _ body: ([PostgresParameter]) throws -> Void
  ) throws {
    guard let first = texts.first else { return try body(pointers) }
    try first.withUnsafeBytes { buffer in
      try withPointers(
        texts.dropFirst(), pointers + [buffer.baseAddress?.assumingMemoryBound(to: CChar.self)], body)
    }
  }
}
