import Changes
import Mapping
import Testing
@testable import Applying

@Suite struct DDLPolicyTests {
  @Test(
    arguments: [
      (nil, true, DDLPolicy.follow), (nil, false, .stop), (.follow, false, .follow), (.stop, true, .stop),
      (.ignore, false, .ignore),
    ] as [(DDLPolicy?, Bool, DDLPolicy)])
  func `the default policy depends on who created the table`(given: DDLPolicy?, isCreated: Bool, expected: DDLPolicy) {
    var options = ApplyOptions()
    options.ddl = given
    #expect(options.policy(isCreated: isCreated) == expected)
  }

  @Test func `a run in which tables wait ends with an error that names them`() throws {
    let trail = try #require(TrailID(Array(repeating: 7, count: 16)))
    func waiting(_ name: String) -> WaitingTable {
      WaitingTable(
        name: name, checkpoint: Checkpoint(trail: trail, position: .start, chain: .zero), number: 0,
        code: .nameCollision, message: "why \(name)", hint: "do \(name)")
    }
    #expect(WaitingTable.error([]) == nil)
    let one = try #require(WaitingTable.error([waiting("a")]))
    #expect(one.code == .schemaStopped)
    #expect(one.message == "table a is suspended: why a")
    #expect(one.hint == "do a")
    let two = try #require(WaitingTable.error([waiting("a"), waiting("b")]))
    #expect(two.message == "2 tables are suspended: a, b; the first: why a")
  }
}
