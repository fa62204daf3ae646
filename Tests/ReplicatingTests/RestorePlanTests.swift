import Changes
import Testing
import Trails

@testable import Replicating

/// Which transactions of a trail a restore applies.
struct RestorePlanTests {
  private static let item = TableSchema(
    epoch: 1, engine: .sqlite, name: "item", columns: [.init(name: "id", keyOrdinal: 1)])
  private static let price = TableSchema(epoch: 1, engine: .sqlite, name: "price", columns: item.columns)

  /// Transactions of 100 bytes each, the second one committed at 2000, and so on, until the plan ends.
  private static func read(_ plan: inout RestorePlan, _ transactions: [(TransactionHeader, [Record])]) {
    let schemas: [UInt64: TableSchema] = [1: item, 2: price]
    for (index, (header, records)) in transactions.enumerated() {
      var header = header
      header.number = UInt64(index + 1)
      let begin = Position(segment: 1, offset: UInt64(index) * 100)
      let all: [Record] = [.begin(header)] + records + [.commit(number: header.number, changes: 0)]
      for record in all where !plan.take(record, at: begin, { schemas[$0] }) { return }
    }
  }

  private static func at(_ time: Int64, _ records: Record...) -> (TransactionHeader, [Record]) {
    (TransactionHeader(commitTime: time), records)
  }

  private static var begins: Record {
    .refresh(Refresh(schemaID: 1, event: .start(.firstCopy, .byKey, estimatedRows: 1)))
  }
  private static var ends: Record { .refresh(Refresh(schemaID: 1, event: .end(rows: 1))) }

  @Test(arguments: [
    (RestoreMoment.time(2000), 2), (.time(1999), 1), (.time(9999), 3), (.time(3000), 3),
    (.position(Position(segment: 1, offset: 100)), 1), (.position(Position(segment: 1, offset: 300)), 3),
    (.before(transaction: 2), 1), (.before(transaction: 4), 3),
  ]) func `the last transaction is the one before the moment`(_ moment: RestoreMoment, _ count: Int) {
    let number = UInt64(count)
    var plan = RestorePlan(moment)
    Self.read(&plan, [Self.at(1000), Self.at(2000), Self.at(3000)])
    #expect(plan.last?.number == number)
    #expect(plan.next?.number == (number < 3 ? number + 1 : nil))
  }

  @Test func `nothing is before the first transaction`() {
    var plan = RestorePlan(.time(999))
    Self.read(&plan, [Self.at(1000)])
    #expect(plan.last == nil)
    #expect(plan.next?.number == 1)
  }

  @Test func `a later transaction with an earlier time is left out too`() {
    var plan = RestorePlan(.time(1500))
    Self.read(&plan, [Self.at(1000), Self.at(2000), Self.at(1200)])
    #expect(plan.last?.number == 1)
  }

  @Test func `a table is unfinished from its creation to the end of its copy`() {
    let created = Record.ddl(DDL(action: .create, before: 0, after: 1, isRefreshed: true))
    let history = [Self.at(1, created), Self.at(2, Self.begins), Self.at(3, Self.ends), Self.at(4)]
    for (number, tables) in [(2, ["item"]), (3, ["item"]), (4, []), (5, [])] as [(UInt64, [String])] {
      var plan = RestorePlan(.before(transaction: number))
      Self.read(&plan, history)
      #expect(plan.unfinished == tables, "before \(number)")
      #expect(plan.whole?.number == (number < 4 ? nil : number - 1))
    }
  }

  @Test func `a table that is copied again is unfinished`() {
    var plan = RestorePlan(.before(transaction: 4))
    Self.read(&plan, [Self.at(1, Self.begins, Self.ends), Self.at(2), Self.at(3, Self.begins), Self.at(4, Self.ends)])
    #expect(plan.unfinished == ["item"])
    #expect(plan.whole?.number == 2)
  }

  @Test func `rows that are put right leave a table whole`() {
    var plan = RestorePlan(.time(9))
    let rows = Record.refresh(Refresh(schemaID: 1, event: .start(.repair, .rows, estimatedRows: 1)))
    Self.read(&plan, [Self.at(1, rows)])
    #expect(plan.unfinished.isEmpty)
  }

  @Test func `an unfinished table that gets another name stays unfinished, and one that is dropped does not`() {
    let renamed = Record.ddl(DDL(action: .rename, before: 1, after: 2))
    var plan = RestorePlan(.time(9))
    Self.read(&plan, [Self.at(1, Self.begins), Self.at(2, renamed)])
    #expect(plan.unfinished == ["price"])
    plan = RestorePlan(.time(9))
    Self.read(&plan, [Self.at(1, Self.begins), Self.at(2, .ddl(DDL(action: .drop, before: 1, after: 0)))])
    #expect(plan.unfinished.isEmpty)
  }

  @Test func `trails whose rows are missing are named, and relayed rows are not missing`() {
    var header = TransactionHeader(commitTime: 1)
    header.dependencies = [.init(origin: "till.pos", number: 7)]
    var plan = RestorePlan(.time(9))
    Self.read(&plan, [(header, [])])
    #expect(plan.feeders == ["till.pos"])
    header.flags.insert(.relayed)
    plan = RestorePlan(.time(9))
    Self.read(&plan, [(header, [])])
    #expect(plan.feeders.isEmpty)
  }

  @Test func `a later copy that makes up for lost changes makes its table doubtful, once`() {
    var plan = RestorePlan(.before(transaction: 2))
    Self.read(&plan, [Self.at(1), Self.at(2000)])
    let schemas: [UInt64: TableSchema] = [1: Self.item]
    for (number, reason) in [(3, .asked), (4, .lostChanges), (5, .lostChanges)] as [(UInt64, Refresh.Reason)] {
      let position = Position(segment: 1, offset: number * 100)
      let start = Refresh(schemaID: 1, event: .start(reason, .byKey, estimatedRows: 1))
      for record in [Record.begin(TransactionHeader(number: number, commitTime: 1)), .refresh(start)] {
        plan.takeLater(record, at: position) { schemas[$0] }
      }
    }
    #expect(plan.doubtful.map(\.table) == ["item"])
    #expect(plan.doubtful.map(\.copied.number) == [4])
    #expect(plan.last?.number == 1 && plan.next?.number == 2)
  }
}
