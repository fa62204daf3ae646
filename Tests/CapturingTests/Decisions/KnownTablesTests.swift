import Changes
import PostgresKit
import Testing

@testable import Capturing

@Suite struct KnownTablesTests {
  private func altered(
    _ known: PostgresRegistry.Table, to fresh: PostgresRegistry.Table, _ word: RowFate.Word = .found
  ) -> KnownTables.Alteration? {
    KnownTables.Alteration(known, to: fresh, [], word)
  }

  private func words(_ change: KnownTables.Change) -> [String] {
    change.records.map { "\($0.action) \($0.before?.schema.name ?? "-") \($0.after?.schema.name ?? "-")" }
  }

  @Test func `a new table is recorded with a shape of its own`() throws {
    var tables = Shapes.known([])
    let change = tables.introduce(Shapes.table(1, "t"), .firstCopy, "CREATE TABLE t", isPublished: true)
    #expect(words(change) == ["create - t"] && change.restarted == [1])
    #expect(change.records[0].isRefreshed && change.records[0].text == "CREATE TABLE t")
    let known = try #require(tables[1])
    #expect(known.epoch == 1 && known.schema.epoch == 1 && known.refresh == .firstCopy && known.copyNotBefore == 0)
    #expect(!tables.isSaved && tables.waitingCount() == 1)
    _ = tables.introduce(Shapes.table(2, "u"), nil, "", isPublished: false)
    #expect(tables[2]?.copyNotBefore == PostgresRegistry.Table.unpublished && tables[2]?.epoch == 2)
  }

  @Test func `a dropped table is forgotten`() {
    let table = Shapes.table(1, "t", epoch: 1)
    var tables = Shapes.known([table])
    let change = tables.drop(table, "DROP TABLE t")
    #expect(words(change) == ["drop t -"] && change.restarted == [1] && tables[1] == nil && !tables.isSaved)
  }

  @Test func `changes of a dropped transaction are undone`() {
    var tables = Shapes.known([Shapes.table(1, "t", epoch: 1)])
    _ = tables.introduce(Shapes.table(2, "u"), nil, "", isPublished: true)
    tables.settle()
    _ = tables.introduce(Shapes.table(3, "w"), nil, "", isPublished: true)
    tables.abandon()
    #expect(tables[2] != nil && tables[3] == nil)
    let again = tables.introduce(Shapes.table(3, "w"), nil, "", isPublished: true)
    #expect(again.records[0].after?.token == 2, "the number of the shape is free again")
  }

  @Test func `a partition logs enough as the server's last description or the catalog shows it`() throws {
    var table = Shapes.table(1, "t", epoch: 1)
    table.schema.flags.insert(.partitioned)
    table.partitions = ["20:5", "3:9"]
    var (whole, part) = (Shapes.relation(table), Shapes.relation(table))
    (part.id, part.name) = (3, "t3")
    var weak = part
    (weak.identity, weak.columns[0].isKey) = (UInt8(ascii: "i"), false)
    var tables = Shapes.known([table])
    func logsEnough() throws -> Bool {
      let form = try #require(tables.form(of: whole, isBeingCopied: false))
      return try tables.logsEnough(nil, of: form)
    }
    func areWeak(_ relations: PgOutput.Relation...) -> [Bool] { relations.map { tables.describe($0) } }
    #expect(areWeak(whole, part) == [false, false])
    #expect(try logsEnough())
    #expect(areWeak(whole, weak) == [false, true])
    #expect(try !logsEnough())
    #expect(areWeak(part) == [false])
    #expect(try logsEnough())
    #expect(areWeak(weak) == [true])
    tables.note(1, isUnsure: false)
    #expect(try logsEnough())
    weak.id = 2
    #expect(areWeak(weak) == [false], "it is no partition of the table")
    whole.identity = UInt8(ascii: "f")
    #expect(areWeak(whole, part) == [false, true], "the key is less than a whole row")
    part.identity = UInt8(ascii: "f")
    #expect(areWeak(part) == [false])
  }

  @Test func `an equal shape is no alteration`() {
    let table = Shapes.table(1, "t", epoch: 4, refresh: .asked)
    #expect(altered(table, to: Shapes.table(1, "t")) == nil)
  }

  @Test func `a renamed table is one record`() throws {
    let table = Shapes.table(1, "t", epoch: 4)
    var tables = Shapes.known([table])
    let alteration = try #require(altered(table, to: Shapes.table(1, "u")))
    #expect(alteration.hasOtherShape && alteration.isOnlyRenamed && !alteration.isRefreshed)
    #expect(words(tables.alter(alteration)) == ["rename t u"] && tables[1]?.schema.name == "u")
  }

  @Test func `a table that is renamed and altered at once is renamed first`() throws {
    let table = Shapes.table(1, "t", epoch: 4)
    var tables = Shapes.known([table])
    let alteration = try #require(altered(table, to: Shapes.table(1, "u", columns: ["id", "v", "w"])))
    let change = tables.alter(alteration)
    #expect(words(change) == ["rename t u", "reshape u u"])
    #expect(change.records[0].after == change.records[1].before && change.records[1].isRefreshed)
    #expect(change.records[1].origins == [0, 1, nil])
    #expect(tables[1]?.refresh == .schemaChange, "found later, new columns may have any values")
  }

  @Test func `an alteration by an apply copies nothing`() throws {
    let table = Shapes.table(1, "t", epoch: 4)
    var word = RowFate.Word.found
    word.isApplied = true
    let alteration = try #require(altered(table, to: Shapes.table(1, "t", columns: ["id", "v", "w"]), word))
    #expect(!alteration.isRefreshed && alteration.fresh.refresh == nil)
  }

  @Test func `another table that has the name steps aside`() throws {
    var tables = Shapes.known([Shapes.table(1, "t", epoch: 4)])
    let change = tables.introduce(Shapes.table(2, "t"), .firstCopy, "", isPublished: true)
    #expect(words(change) == ["rename t moving_1_cairn", "create - t"] && change.restarted == [1, 2])
    let holder = try #require(tables[1])
    #expect(
      holder.schema.createText.isEmpty && tables.table(named: .init(namespace: "public", table: "t"))?.relation == 2)
  }

  @Test func `names that only look alike are two tables`() {
    var tables = Shapes.known([Shapes.table(1, "\u{e9}", epoch: 4)])
    let change = tables.introduce(Shapes.table(2, "e\u{301}"), nil, "", isPublished: true)
    #expect(change.records.count == 1)
    #expect(tables.table(named: .init(namespace: "public", table: "e\u{301}"))?.relation == 2)
  }

  // MARK: The stream

  private func lookup(_ tables: KnownTables, _ relation: UInt32) -> String {
    switch tables.lookup(relation) {
    case .captured: "captured"
    case .leftOut: "left out"
    case .new: "new"
    case .undescribed: "undescribed"
    }
  }

  @Test func `the form of a table is kept until something about it changes`() throws {
    let table = Shapes.table(1, "t", epoch: 4)
    var tables = Shapes.known([table])
    func form() throws -> Captured {
      try #require(tables.form(of: Shapes.relation(table), isBeingCopied: false))
    }
    #expect(lookup(tables, 1) == "undescribed")
    tables.describe(Shapes.relation(table))
    #expect(lookup(tables, 1) == "new")
    tables.keep(try form())
    #expect(lookup(tables, 1) == "captured")
    tables.set(Shapes.table(1, "t", epoch: 4, refresh: .firstCopy))
    #expect(lookup(tables, 1) == "new")
    tables.keep(try form())
    #expect(lookup(tables, 1) == "left out", "the coming copy has the result")
    tables.forgetForm(of: 1)
    tables.keep(try #require(tables.form(of: Shapes.relation(table), isBeingCopied: true)))
    #expect(lookup(tables, 1) == "captured")
    tables.abandon()
    #expect(lookup(tables, 1) == "new")
    tables.beginStream()
    #expect(lookup(tables, 1) == "undescribed")
  }

  @Test func `a copy that was only asked for lets changes pass`() throws {
    let table = Shapes.table(1, "t", epoch: 4, refresh: .asked)
    let form = try #require(Shapes.known([table]).form(of: Shapes.relation(table), isBeingCopied: false))
    #expect(form.isWanted && form.isKey == [true, false] && !form.isFull && form.givenAlways == nil)
    #expect(Shapes.known([]).form(of: Shapes.relation(table), isBeingCopied: false) == nil)
  }

  @Test func `a relation describes a shape if name, columns, types and key are the same`() {
    let table = Shapes.table(1, "t")
    #expect(
      table.isDescribed(by: Shapes.relation(table)) && table.isDescribed(by: Shapes.relation(table, identity: "f")))
    var other = Shapes.relation(table)
    other.name = "u"
    #expect(!table.isDescribed(by: other))
    other = Shapes.relation(table)
    other.columns[1].type = 25
    #expect(!table.isDescribed(by: other))
    other = Shapes.relation(table)
    other.columns[1].isKey = true
    #expect(!table.isDescribed(by: other))
    other = Shapes.relation(table)
    other.columns.removeLast()
    #expect(!table.isDescribed(by: other))
  }

  /// The model: the catalog's tables by their oid. The records, one after the other, must lead a reader from the tables
  /// before to the tables after, by name.
  @Test(arguments: 0..<60) func `a reader that follows the records has the tables of the catalog`(_ seed: Int) throws {
    var random = SeededRandom(UInt64(seed))
    var tables = Shapes.known([])
    var catalog: [UInt32: PostgresRegistry.Table] = [:]
    var reader: [String: [String]] = [:]
    var tokens: Set<UInt64> = []
    let names = ["a", "b", "c", "d"]
    func apply(_ change: KnownTables.Change) {
      for record in change.records {
        if let before = record.before {
          let was = reader.removeValue(forKey: before.schema.name)
          #expect(was != nil, "\(before.schema.name) is not there")
        }
        if let after = record.after {
          #expect(reader[after.schema.name] == nil, "\(after.schema.name) is there")
          reader[after.schema.name] = after.schema.columns.map(\.name)
          let isNew = tokens.insert(after.token).inserted
          #expect(isNew, "a shape has the number of another one")
        }
      }
    }
    func report(_ relation: UInt32) throws -> KnownTables.Change {
      guard let fresh = catalog[relation] else {
        let gone = try #require(tables[relation])
        return tables.drop(gone, "")
      }
      guard let known = tables[relation] else {
        return tables.introduce(fresh, .firstCopy, "", isPublished: true)
      }
      guard let alteration = altered(known, to: fresh) else { return .init() }
      if alteration.hasOtherShape { return tables.alter(alteration) }
      tables.set(alteration.fresh)
      return .init()
    }
    for _ in 0..<60 {
      let relation = UInt32.random(in: 1...4, using: &random)
      let columns = [["id"], ["id", "v"], ["id", "v", "w"]].randomElement(using: &random) ?? []
      guard
        let free = names.filter({ name in !catalog.values.contains { $0.schema.name == name } }).randomElement(
          using: &random)
      else {
        catalog[relation] = nil
        apply(try report(relation))
        continue
      }
      var reports = [relation]
      var name = free
      if let other = catalog.values.filter({ $0.relation != relation }).randomElement(using: &random),
        Bool.random(using: &random)
      {
        // The new owner of a name is reported before its former owner.
        name = other.schema.name
        catalog[other.relation] = Shapes.table(other.relation, free, columns: other.schema.columns.map(\.name))
        reports.append(other.relation)
      }
      catalog[relation] = Shapes.table(relation, name, columns: columns)
      for relation in reports { apply(try report(relation)) }
      let expected = Dictionary(
        uniqueKeysWithValues: catalog.values.map { ($0.schema.name, $0.schema.columns.map(\.name)) })
      #expect(reader == expected)
    }
  }
}
