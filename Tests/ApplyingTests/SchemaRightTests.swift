import Mapping
import Testing

@testable import Applying

/// Which changes of a shared table are made.
@Suite struct SchemaRightTests {
  @Test(arguments: 0..<8, [[], ["b.x"], ["b.x", "c.x"]])
  func `nothing is taken away from rows of another trail`(bits: Int, others: [String]) {
    let (isCreated, isElsewhere, goesBothWays) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0)
    for ddl in [nil, .follow, .stop, .ignore] as [DDLPolicy?] {
      let adds = SchemaRight(
        .adds, isCreated: isCreated, isCreatedElsewhere: isElsewhere, others: others, goesBothWays: goesBothWays)
      #expect(adds.policy(ddl) == ddl ?? (isCreated || isElsewhere ? .follow : .stop))
      let removes = SchemaRight(
        .removes, isCreated: isCreated, isCreatedElsewhere: isElsewhere, others: others, goesBothWays: goesBothWays)
      if others.isEmpty || goesBothWays {
        #expect(removes.policy(ddl) == ddl ?? (isCreated ? .follow : .stop))
        #expect(removes.isCreated == isCreated)
      } else {
        #expect(removes.policy(ddl) == (ddl == .ignore ? .ignore : .stop))
        #expect(!removes.isCreated)
        #expect(removes.refusal.contains(others.joined(separator: ", ")))
        // A table that is dropped at the source stays.
        #expect(removes.policyOfDrop(ddl) != .stop)
      }
    }
  }
}
