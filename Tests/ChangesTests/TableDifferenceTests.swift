import Changes
import Testing

@Suite struct TableDifferenceTests {
  static let item = TableSchema(
    epoch: 1, engine: .sqlite, name: "item",
    columns: [
      .init(name: "id", declaredType: "INTEGER", keyOrdinal: 1), .init(name: "name", declaredType: "TEXT"),
      .init(name: "price", declaredType: "REAL", defaultText: "0"),
    ], objects: [.init(name: "by_name", text: "CREATE INDEX by_name ON item(name)")])

  private func after(_ change: (inout TableSchema) -> Void) -> TableSchema {
    var after = Self.item
    change(&after)
    return after
  }

  @Test func `a table is not different from itself`() {
    #expect(TableDifference(Self.item, Self.item).isEmpty)
  }

  @Test func `the time does not grow with the product of two shapes`() {
    func seconds(_ count: Int) -> Double {
      let names = (0..<count).map { "i\($0)" }
      func wide(_ suffix: String) -> TableSchema {
        after {
          $0.columns = names.map { .init(name: $0 + suffix, declaredType: "TEXT") }
          $0.objects = names.map { .init(name: $0, text: "CREATE INDEX \($0) ON item(name\(suffix))") }
          $0.foreignKeys = names.indices.map {
            .init(columns: [$0], table: "t\(suffix)", references: ["id"], onUpdate: "", onDelete: "")
          }
        }
      }
      let (old, new) = (wide("a"), wide("b"))
      let origins = names.indices.map { $0 % 2 == 0 ? $0 : nil }
      return (0..<3).map { _ in
        let clock = ContinuousClock()
        let taken = clock.measure {
          // Half of the columns have another name, half come and go; so do all keys and indexes.
          #expect(TableDifference(old, new, origins: origins).changes.count == count / 2 * 3 + 4 * count)
        }
        return taken / .seconds(1)
      }.min() ?? 0
    }
    // Eight times as much: 64 times as long if each index were compared with each.
    let (short, long) = (seconds(500), seconds(4_000))
    #expect(long < 30 * short, "\(short) s, then \(long) s")
  }

  @Test func `a foreign key whose columns have moved is the same`() {
    var before = Self.item
    before.foreignKeys = [.init(columns: [1], table: "t", references: ["id"], onUpdate: "", onDelete: "")]
    var after = before
    after.columns.insert(.init(name: "note", declaredType: "TEXT"), at: 1)
    after.foreignKeys[0].columns = [2]
    #expect(TableDifference(before, after).changes == [.addColumn(1)])
    after.foreignKeys[0].columns = [1]
    #expect(TableDifference(before, after).changes == [.addColumn(1), .dropForeignKey(0), .addForeignKey(0)])
  }

  @Test func `a column of another name in the place of one that went is the same column`() {
    let difference = TableDifference(Self.item, after { $0.columns[1].name = "title" })
    #expect(difference.changes == [.renameColumn(1, to: 1)])
    #expect(difference.phrases == ["rename column name to title"])
  }

  @Test func `origins from the capture count more than names`() {
    let after = after { $0.columns[1].name = "title" }
    let difference = TableDifference(Self.item, after, origins: [0, nil, 2])
    #expect(difference.changes == [.dropColumn(1), .addColumn(1)])
  }

  @Test func `swapped names are two renames if the origins say so`() {
    let after = after { ($0.columns[1].name, $0.columns[2].name) = ("price", "name") }
    #expect(
      TableDifference(Self.item, after, origins: [0, 1, 2]).changes == [
        .renameColumn(1, to: 1), .renameColumn(2, to: 2),
      ])
  }

  @Test func `removed parts come before new ones, and keys and indexes last`() {
    let after = after {
      $0.columns.remove(at: 2)
      $0.columns.append(.init(name: "sku", declaredType: "TEXT", isNotNull: true, keyOrdinal: 1))
      $0.columns[0].keyOrdinal = 0
      $0.objects = [.init(name: "by_sku", text: "CREATE INDEX by_sku ON item(sku)")]
    }
    let difference = TableDifference(Self.item, after)
    #expect(
      difference.changes == [.dropColumn(2), .addColumn(2), .key, .dropIndex("by_name"), .addIndex("by_sku")])
    #expect(
      difference.phrases == [
        "drop column price", "add column sku TEXT", "key (sku)", "drop index by_name", "add index by_sku",
      ])
  }

  @Test func `origins that do not fit the schemas are not believed`() {
    let difference = TableDifference(Self.item, Self.item, origins: [0, 1, 9])
    #expect(difference.origins == [0, 1, 2])
  }
}
