import Changes
import Conflicts
import TestServers
import Testing
import Trails

@testable import Versions

@Suite struct VersionReaderTests {
  private let temp: TempFolder
  private let folder: String
  private let writer: TrailWriter

  init() throws {
    temp = try TempFolder()
    folder = temp("a.db")
    writer = try Self.writer(folder)
  }

  private static func writer(_ folder: String) throws -> TrailWriter {
    var options = TrailOptions()
    (options.segmentBytes, options.blockBytes, options.allocateBytes) = (3000, 300, 4096)
    return try TrailWriter.open(
      folder: folder, name: TrailName(origin: "a", name: "db"), options: options
    ) { 0 }
  }

  /// Commits a transaction and reads what it made of a row.
  private func versions(
    of row: RowName = rowName(1), seen: [TransactionHeader.Dependency] = [],
    _ body: () throws -> Void
  ) throws -> [StoredVersion] {
    let place = try place(seen, body)
    let found = try VersionReader(seen: seenByName).read(row, at: place, folder: folder, rowNames: rowNames)
    #expect(found.allSatisfy { $0.stamp == place.stamp })
    return found
  }

  private func place(_ seen: [TransactionHeader.Dependency] = [], _ body: () throws -> Void) throws
    -> VersionPlace
  {
    let begin = try writer.sync().position
    let header = try writer.begin(TransactionHeader(commitTime: 5, dependencies: seen))
    try body()
    try writer.commit()
    try writer.sync()
    return VersionPlace(
      stamp: VersionStamp(clock: header.clock, origin: "a.db", number: header.number), begin: begin)
  }

  /// A database that takes the rows may refuse one, or be stopped: the caller decides what that means.
  @Test func `an error of who takes the rows comes out as it is`() throws {
    struct Refused: Error {}
    let place = try place { try writer.change(nil, item(1, "tea", 1)) }
    let reader = VersionReader(seen: seenByName)
    #expect(throws: Refused.self) { try reader.forEachRow(at: place, folder: folder) { _, _, _ in throw Refused() } }
    let error = #expect(throws: CairnError.self) {
      try reader.forEachRow(at: place, folder: folder) { _, _, _ in throw DecodingError(offset: 0, problem: "no value")
      }
    }
    #expect(error?.code == .trailDamaged)
    #expect(try reader.read(rowName(1), at: place, folder: folder, rowNames: rowNames).count == 1)
  }

  @Test func `several changes of a row are one version`() throws {
    let found = try versions(seen: [.init(origin: "b.db", number: 7)]) {
      try writer.change(nil, item(2, "other", 1))
      try writer.change(item(1, "tea", 1), item(1, "tea", 2))
      try writer.change(item(2, "other", 1), item(2, "other", 5))
      try writer.change(item(1, "tea", 2), [.integer(1), nil, nil, .text("new")])
    }
    #expect(found.map(\.before) == [item(1, "tea", 1)])
    #expect(found.map(\.after) == [item(1, "tea", 2, "new")])
    #expect(found.first?.seen == ["b.db": 7])
    #expect(found.first?.schema == items)
  }

  @Test func `inserts and deletes fold to what is there at the end`() throws {
    let (tea, mate) = (item(1, "tea", 1), item(1, "mate", 2))
    let replaced = try versions {
      try writer.change(tea, nil)
      try writer.change(nil, mate)
    }
    #expect(replaced.map(\.before) == [tea] && replaced.map(\.after) == [mate])
    let deleted = try versions {
      try writer.change(mate, tea)
      try writer.change(tea, nil)
    }
    #expect(deleted.map(\.before) == [mate] && deleted.map(\.after) == [nil])
    let inserted = try versions {
      try writer.change(nil, tea)
      try writer.change(tea, mate)
    }
    #expect(inserted.map(\.before) == [nil] && inserted.map(\.after) == [mate])
    let gone = try versions {
      try writer.change(nil, tea)
      try writer.change(tea, nil)
    }
    #expect(gone.isEmpty, "neither before nor afterwards")
  }

  @Test func `a change of the key is a delete and an insert`() throws {
    func change() throws {
      try writer.change(item(1, "tea", 1), [.integer(2), nil, nil, .text("x")])
    }
    let old = try versions(of: rowName(1), change)
    #expect(old.map(\.before) == [item(1, "tea", 1)] && old.map(\.after) == [nil])
    let new = try versions(of: rowName(2), change)
    #expect(new.map(\.before) == [nil] && new.map(\.after) == [item(2, "tea", 1, "x")])
  }

  @Test func `an update may come before the change that brought its row`() throws {
    let inserted = try versions {
      try writer.change(item(1, "tea", 1), item(1, "tea", 2))
      try writer.change(nil, item(1, "tea", 1))
    }
    #expect(inserted.map(\.before) == [nil] && inserted.map(\.after) == [item(1, "tea", 2)])
    let updated = try versions {
      try writer.change(item(1, "tea", 2), item(1, "tea", 3))
      try writer.change(item(1, "tea", 1), item(1, "tea", 2))
    }
    #expect(
      updated.map(\.before) == [item(1, "tea", 1)] && updated.map(\.after) == [item(1, "tea", 3)])
    let back = try versions {
      try writer.change(item(1, "tea", 1), item(1, "tea", 2))
      try writer.change(item(1, "tea", 2), item(1, "tea", 1))
    }
    #expect(back.map(\.before) == [item(1, "tea", 1)] && back.map(\.after) == [item(1, "tea", 1)])
  }

  @Test func `a row that is inserted again as it was is another one than before its delete`() throws {
    let (was, became) = (item(1, "tea", 1), item(1, "tea", 2))
    let found = try versions {
      try writer.change(was, became)
      try writer.change(became, nil)
      try writer.change(nil, was)
    }
    #expect(found.map(\.before) == [was] && found.map(\.after) == [was])
  }

  @Test func `an update without its row before is no insert`() throws {
    let found = try versions { try writer.change(nil, item(1, "tea", 2), .update) }
    #expect(found.map(\.before) == [[.integer(1), nil, nil, nil]])
    #expect(found.map(\.after) == [item(1, "tea", 2)])
  }

  @Test func `two rows of one name are two versions`() throws {
    let texts = ["1", "1.0"].map { [.text($0), .text("name \($0)"), .null, .null] as [Value?] }
    let found = try versions(of: RowName(table: "items", key: [.text("1.00")])) {
      for text in texts { try writer.change(nil, text) }
      try writer.change(texts[0], [nil, .text("again"), nil, nil].map { $0 ?? texts[0][0] })
    }
    #expect(found.count == 2)
    #expect(found.last?.after == texts[1])
  }

  @Test func `a column that came within the transaction is not given before`() throws {
    var wider = items
    wider.epoch = 2
    wider.columns.insert(.init(name: "price"), at: 1)
    let found = try versions {
      try writer.change(item(1, "tea", 1), item(1, "tea", 2))
      try writer.change(
        [.integer(1), .null, .text("tea"), .integer(2), .text("")],
        [.integer(1), .integer(9), .text("tea"), .integer(2), .text("")], schema: wider)
    }
    #expect(found.map(\.schema) == [wider])
    #expect(found.map(\.before) == [[.integer(1), nil, .text("tea"), .integer(1), .text("")]])
    #expect(
      found.map(\.after) == [[.integer(1), .integer(9), .text("tea"), .integer(2), .text("")]])
  }

  @Test func `versions are read in any order over blocks and segments`() throws {
    var places: [VersionPlace] = []
    for number in 0..<60 {
      places.append(
        try place {
          for row in 0..<(number % 5 == 0 ? 40 : 1) {
            try writer.change(nil, item(Int64(row), "version \(number) of \(row)", Int64(number)))
          }
        })
    }
    #expect(try Trail.info(folder: folder).segments.count > 2)
    let reader = VersionReader(seen: seenByName)
    var random = Seeded(7)
    for _ in 0..<200 {
      let number = random.below(places.count)
      let row = Int64(random.below(number % 5 == 0 ? 40 : 1))
      let found = try reader.read(
        rowName(row), at: places[number], folder: folder, rowNames: rowNames)
      #expect(found.map(\.after) == [item(row, "version \(number) of \(row)", Int64(number))])
    }
    // A change that comes later is found, too.
    let last = try place { try writer.change(nil, item(1, "last", 1)) }
    #expect(try reader.read(rowName(1), at: last, folder: folder, rowNames: rowNames).count == 1)
    #expect(try reader.read(rowName(9), at: last, folder: folder, rowNames: rowNames).isEmpty)
  }

  @Test(arguments: Seeds.range(reduced: 40))
  func `a long transaction that is read repeatedly gives the same rows`(
    _ seed: UInt64
  ) throws {
    var random = Seeded(seed)
    var rows: [Int64: [Value?]] = [:]
    let place = try place([.init(origin: "b.db", number: 7)]) {
      for count in 0..<Int64(30 + random.below(100)) {
        let id = Int64(random.below(8))
        let row = item(Int64(random.below(10) == 0 ? random.below(8) : Int(id)), "row \(count)", count)
        let isMoved = row[0] != .integer(id)
        switch (rows[id], random.below(4)) {
        case (let old?, 0):
          try writer.change(old, nil)
          rows[id] = nil
        case (let old?, _) where !isMoved || rows[Self.id(row)] == nil:
          try writer.change(old, row)
          rows[id] = nil
          rows[Self.id(row)] = row
        case (nil, _) where !isMoved:
          try writer.change(nil, row)
          rows[id] = row
        default: continue
        }
      }
    }
    let reader = VersionReader(indexedChangesMin: 0, seen: seenByName)
    func read(_ reader: VersionReader, _ id: Int64) throws -> [StoredVersion] {
      try reader.read(rowName(id), at: place, folder: folder, rowNames: rowNames)
    }
    for _ in 0..<4 {
      for id in 0..<Int64(9) {
        #expect(try read(reader, id) == read(VersionReader(seen: seenByName), id), "row \(id), seed \(seed)")
      }
    }
    reader.forgetTransactions()
    #expect(try read(reader, 1) == read(VersionReader(seen: seenByName), 1))
  }

  private static func id(_ row: [Value?]) -> Int64 { if case .integer(let id)?? = row.first { id } else { -1 } }

  @Test func `only some of many long transactions are in temporary files`() throws {
    let places = try (0..<6).map { number in
      try place { for row in 0..<Int64(20) { try writer.change(nil, item(row, "of \(number)", row)) } }
    }
    let reader = VersionReader(indexedChangesMin: 5, seen: seenByName)
    for row in 0..<Int64(20) {
      for (number, place) in places.enumerated() {
        let found = try reader.read(rowName(row), at: place, folder: folder, rowNames: rowNames)
        #expect(found.map(\.after) == [item(row, "of \(number)", row)])
        #expect(reader.fileCount <= 4)
      }
    }
    #expect(reader.fileCount == 4)
  }

  @Test func `a version that is not there is reported`() throws {
    let place = try place { try writer.change(nil, item(1, "tea", 1)) }
    func fails(_ place: VersionPlace) {
      let error = #expect(throws: CairnError.self) {
        try VersionReader(seen: seenByName).read(rowName(1), at: place, folder: folder, rowNames: rowNames)
      }
      #expect(error?.code == .checkpointForeign)
    }
    for offset in [1, 1000, 1 << 40] as [UInt64] {
      fails(VersionPlace(stamp: place.stamp, begin: Position(segment: 1, offset: offset)))
    }
    fails(VersionPlace(stamp: place.stamp, begin: Position(segment: 2, offset: 0)))
    fails(VersionPlace(stamp: VersionStamp(clock: 1, origin: "a.db", number: 9), begin: place.begin))
  }

  @Test func `a damaged block is reported, also if it was whole before`() throws {
    let place = try place { try writer.change(nil, item(1, "tea", 1)) }
    let reader = VersionReader(seen: seenByName)
    func read(_ reader: VersionReader) throws -> Int {
      try reader.read(rowName(1), at: place, folder: folder, rowNames: rowNames).count
    }
    #expect(try read(reader) == 1)
    let path = folder + "/00000001.seg"
    var bytes = try contents(path)
    bytes[600] ^= 4
    try put(bytes, path)
    for reader in [reader, VersionReader(seen: seenByName)] {
      let error = #expect(throws: CairnError.self) { try read(reader) }
      #expect(error?.code == .trailDamaged)
    }
  }
}
