import Changes
import Testing

@testable import Trails

/// The memory for the definitions of tables in one segment: a writer begins another segment before readers refuse it.
@Suite struct SchemaMemoryTests {
  private let pair: CopyPair

  init() throws { pair = try CopyPair() }

  /// A table whose definition takes 8 MiB.
  private func table(_ number: Int) -> TableSchema {
    var table = items
    table.name = "items\(number)"
    table.createText = String(repeating: "-", count: 8 << 20)
    return table
  }

  private func names(_ folder: String) throws -> [String] {
    let reader = try TrailReader.open(folder: folder, at: nil)
    var names: [String] = []
    while let record = try reader.next() {
      if case .schema(_, let schema) = record { names.append(schema.name) }
    }
    return names
  }

  private func use(_ tables: Range<Int>, _ writer: TrailWriter) throws {
    _ = try writer.begin(TransactionHeader(commitTime: 0))
    for number in tables { _ = try writer.schemaID(table(number), token: UInt64(number)) }
  }

  @Test func `definitions of more than a reader takes are in several segments, also without a sync`() throws {
    let writer = try openWriter(pair.origin, TrailOptions())
    for number in 0..<40 {
      try use(number..<number + 1, writer)
      try writer.commit()
    }
    try writer.close()
    #expect(try Trail.info(folder: pair.origin).segments.count > 4)
    #expect(try names(pair.origin) == (0..<40).map { "items\($0)" })
    let copy = try pair.open()
    try pair.bring(copy, max: 16 << 20)
    try copy.close()
    try pair.expectEqual()
    let lookup = TransactionLookup(folder: pair.origin)
    // The last segment is empty: `close()` syncs, and the content of the one before is large.
    for segment in try Trail.info(folder: pair.origin).segments.dropLast() {
      try lookup.read(at: Position(segment: segment.number, offset: 0)) { _, _ in }
    }
  }

  @Test func `a transaction with more definitions than a reader takes is refused, and the writer goes on`() throws {
    let writer = try openWriter(pair.origin, TrailOptions())
    try use(0..<7, writer)
    try writer.commit()
    // The segment has less than 64 MiB of definitions, so there is room for 192 MiB.
    try use(100..<123, writer)
    fails(.unsupported) { for number in 200..<203 { _ = try writer.schemaID(table(number), token: UInt64(number)) } }
    try writer.abandon()
    try use(100..<123, writer)
    try writer.commit()
    try use(0..<7, writer)
    try writer.commit()
    try writer.close()
    #expect(try names(pair.origin) == [0..<7, 100..<123, 0..<7].joined().map { "items\($0)" })
    #expect(try Trail.info(folder: pair.origin).segments.count == 3, "the last one is empty")
  }

  @Test func `a writer that goes on in a segment counts the definitions in it`() throws {
    var options = TrailOptions.small(segment: 1 << 20)
    options.schemaBytes = items.memoryBytes * 3
    for _ in 0..<10 {
      let script = Script(try openWriter(pair.origin, options))
      try script.transaction()
      try script.writer.close()
    }
    #expect(try Trail.info(folder: pair.origin).segments.count == 4)
    #expect(try Trail.verify(folder: pair.origin).transactions == 10)
  }
}
