import Changes
import Testing

@testable import Comparing

/// Rows that differ, whose keys a hostile source or target chooses.
@Suite struct SuspectListTests {
  @Test func `long keys make a repair send the whole table`() {
    var list = SuspectList()
    let long = Value.text(Array(repeating: 0x61, count: 1 << 20))
    func isTooLarge(with count: Int) -> Bool {
      while list.count < count { list.append(Suspect(hash: 1, sourceKey: [long], targetKey: [long])) }
      return list.isTooLarge
    }
    #expect(!isTooLarge(with: 31))
    #expect(isTooLarge(with: 33))
  }
}
