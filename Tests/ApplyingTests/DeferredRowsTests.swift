import Changes
import Conflicts
import TestServers
import Testing
import Versions

@testable import Applying

/// Rows that are settled at the end of their transaction, in memory and in a file.
@Suite struct DeferredRowsTests {
  private final class NoTable {}
  private static let schema = TableSchema(
    epoch: 1, engine: .sqlite, name: "item",
    columns: [.init(name: "id", keyOrdinal: 1), .init(name: "name"), .init(name: "n")])

  @Test("a file has the same rows as memory", arguments: UInt64(0)..<20)
  func random(seed: UInt64) throws {
    var random = Seeded(seed)
    // One goes to its file at once, one in the middle, and one stays in memory.
    let lists = [0, 2000, 1 << 20].map { DeferredRows<NoTable>(bytesMax: $0) }
    let tables = [NoTable(), NoTable()]
    for step in 0..<200 {
      let id = Int64.random(in: 0..<20, using: &random)
      // Rows of some keys share their names.
      let name = RowName(hash: UInt64(id % 7) &+ (1 << 63))
      let texts: [Value?] = [nil, .null, .text(Array("row \(step)".utf8)), .blob([0, 255])]
      let numbers: [Value?] = [.real(.nan), .real(-0.0), .exact(Array("1.50".utf8)), nil]
      let image: [Value?] = [
        .integer(id), texts[Int.random(in: 0..<4, using: &random)], numbers[Int.random(in: 0..<4, using: &random)],
      ]
      let change = try Self.change(Int.random(in: 0..<3, using: &random), image)
      try change { change in
        let steps = try VersionFold.Step.all(change, Self.schema, [name], name)
        for list in lists {
          for one in steps { try list.fold(name, tables[Int(id % 2)], Self.schema, one) }
        }
      }
    }
    #expect(lists.map(\.count) == Array(repeating: lists[2].count, count: 3))
    for index in 0..<lists[2].count {
      let expected = try lists[2][index]
      for list in lists {
        let row = try list[index]
        #expect(row.name == expected.name && row.table === expected.table)
        #expect(Self.shown(row.fold.before) == Self.shown(expected.fold.before))
        #expect(Self.shown(row.fold.after) == Self.shown(expected.fold.after))
        #expect(try list.holds(row.name))
        #expect(try !list.holds(RowName(hash: 1)))
      }
    }
    for list in lists {
      list.removeAll()
      #expect(list.isEmpty)
    }
  }

  @Test func `a list comes back from its file in order`() throws {
    let puts = (0..<50).map { number in
      SettledPut(
        index: number, key: [.integer(Int64(number))],
        put: number % 3 == 0 ? nil : [nil, .text(Array("\(number)".utf8))],
        outcome: [.null, nil, .real(0.5)],
        stamp: number % 2 == 0 ? nil : VersionStamp(clock: .max, origin: "hub.shop", number: UInt64(number)))
    }
    for limit in [0, 3000, 1 << 20] {
      var list = SpilledList<SettledPut>(bytesMax: limit)
      for put in puts { try list.append(put) }
      var found: [SettledPut] = []
      try list.forEach { found.append($0) }
      #expect(found == puts)
    }
  }

  private static func shown(_ row: [Value?]?) -> String { "\(row.map { $0.map { $0?.shown ?? "-" } } ?? [])" }

  /// Calls back with an insert, an update or a delete.
  private static func change(_ kind: Int, _ image: [Value?]) throws -> ((ChangeView) throws -> Void) throws -> Void {
    { body in
      var bytes = ByteWriter()
      for value in image { bytes.append(value) }
      let view = ImageView(bytes: bytes.bytes)
      switch kind {
      case 0: try body(ChangeView(.insert, schemaID: 1, after: view))
      case 1: try body(ChangeView(.update, schemaID: 1, before: view, after: view))
      default: try body(ChangeView(.delete, schemaID: 1, before: view))
      }
    }
  }
}
