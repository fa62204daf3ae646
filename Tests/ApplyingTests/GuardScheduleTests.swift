import Changes
import Testing

@testable import Applying

struct GuardScheduleTests {
  private static let key = "\"s\".\"k\""
  private static let busy = CairnError(.databaseBusy, "in use", hint: "wait", remedy: .retry)
  private static let refused = CairnError(.privilegeMissing, "refused", hint: "GRANT")

  private func started() -> GuardSchedule {
    var guards = GuardSchedule()
    guards.set([.init(schema: "s", name: "k", isWanted: true)])
    return guards
  }

  @Test func `a table that another session uses is open, and its next attempt is later`() throws {
    var guards = started()
    #expect(!guards.isLookDue(0) && !guards.isMade("s", "k") && guards.isMade("s", "other"))
    #expect(guards.due(0).map(\.quotedName) == [Self.key])
    guards.fail(Self.key, Self.busy, isLocked: true, 0)
    #expect(guards.due(1999).isEmpty && guards.due(2000).count == 1 && guards.isLocked)
    #expect(guards.open.map(\.code) == [.databaseBusy])
    try guards.check("s", "k", of: "k")
    guards.remove(Self.key)
    #expect(guards.open.isEmpty && guards.isMade("s", "k"))
  }

  @Test func `a table whose triggers are refused is suspended until they are made`() throws {
    var guards = started()
    try guards.check("s", "k", of: "k")
    guards.fail(Self.key, Self.refused, isLocked: false, 0)
    let error = failure { try guards.check("s", "k", of: "source") }
    #expect(error?.code == .privilegeMissing && error?.context["table"] == "source")
    try guards.check("s", "other", of: "other")
    guards.remove(Self.key)
    try guards.check("s", "k", of: "k")
  }

  @Test func `a look keeps the times of attempts, and forgets tables that need none`() {
    var guards = started()
    guards.fail(Self.key, Self.refused, isLocked: false, 0)
    guards.noteChange()
    #expect(guards.isLookDue(0) && !guards.isMade("s", "other"))
    guards.postponeLook(0)
    #expect(!guards.isLookDue(1999) && guards.isLookDue(2000))
    guards.set([.init(schema: "s", name: "k", isWanted: true), .init(schema: "s", name: "l", isWanted: false)])
    #expect(guards.due(0).map(\.name) == ["l"] && guards.open.count == 1)
    guards.set([])
    #expect(guards.open.isEmpty && guards.due(60_000).isEmpty)
  }
}
