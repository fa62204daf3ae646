import Changes
import Testing

@testable import Capturing

@Suite struct WaitingTablesTests {
  private func wait(_ table: String, _ code: ErrorCode = .tableRefused, _ message: String = "m") -> TableWait {
    TableWait(table: table, code: code, message: message, hint: "h")
  }

  @Test func `a wait is news once, and again after its end`() {
    var waits = WaitingTables()
    func news(_ found: [UInt32: TableWait]) -> [String] {
      waits.set(found, .refused).map { "\($0.table) \($0.code.rawValue)" }
    }
    #expect(news([1: wait("a")]) == ["a table-refused"])
    #expect(news([1: wait("a"), 2: wait("b")]) == ["b table-refused"])
    #expect(news([1: wait("a", .tableRefused, "other words")]) == [])
    #expect(news([1: wait("a", .privilegeMissing)]) == ["a privilege-missing"])
    #expect(news([:]) == [] && waits.all.isEmpty)
    let added = [1, 2].map { _ in waits.add(wait("a"), of: 1, .copyHeldUp) }
    waits.end(1)
    #expect(added == [true, false] && waits.all.isEmpty)
    let again = waits.add(wait("a"), of: 1, .copyHeldUp)
    #expect(again)
  }

  @Test func `a table is listed once, and only what an operator must mend ends a run with an error`() {
    var waits = WaitingTables()
    _ = waits.set([1: wait("a", .databaseBusy)], .locked)
    #expect(waits.error == nil && waits.forOperator.isEmpty && waits.all.map(\.code) == [.databaseBusy])
    _ = waits.add(wait("b", .privilegeMissing, "mb"), of: 2, .unreadable)
    _ = waits.set([1: wait("a", .tableRefused, "ma")], .refused)
    #expect(waits.all.map(\.table) == ["a", "b"] && waits.all.first?.code == .tableRefused)
    #expect(waits.forOperator == [1, 2])
    #expect(waits.error?.code == .tableRefused && waits.error?.message == "ma; mb")
  }

  @Test func `any number of waits is shown within bounds`() {
    var waits = WaitingTables()
    _ = waits.set(Dictionary(uniqueKeysWithValues: (1...5000).map { (UInt32($0), wait("t\($0)")) }), .refused)
    #expect(waits.all.count == WaitingTables.shownMax && waits.forOperator.count == 5000)
    #expect(waits.error?.message.hasSuffix("; 4990 other tables are suspended too") == true)
    #expect((waits.error?.hint.utf8.count ?? 0) < 100)
  }
}
