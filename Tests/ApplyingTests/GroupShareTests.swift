@testable import Applying
import Testing

/// How many transactions two-way apply takes at once, and for how many it locks the rows first, if programs are ahead
/// of it.
struct GroupShareTests {
  @Test("a group that was overtaken is halved, and grows again") func share() {
    var share = GroupShare()
    #expect(share.count == .max)
    share.grow()
    #expect(share.count == .max)
    share.shrink(100)
    #expect(share.count == 50)
    share.shrink(20)
    #expect(share.count == 10)
    share.grow()
    #expect(share.count == 12)
    for _ in 0..<10 { share.shrink(1) }
    #expect(share.count == 1)
    share.grow()
    #expect(share.count == 2)
    for _ in 0..<100 { share.grow() }
    #expect(share.count == .max)
  }

  @Test("rows are locked first where a group was overtaken twice, or one soon behind it once") func locks() {
    var locked = LockedFirst()
    locked.note(10, isAgain: false)
    #expect(!locked.contains(10))
    locked.note(10, isAgain: true)
    #expect(locked.contains(11) && !locked.contains(12))
    locked.note(12, isAgain: false)
    #expect(locked.contains(14) && !locked.contains(15))
    locked.note(16, isAgain: false)
    #expect(locked.contains(20) && !locked.contains(21))
    locked.note(100, isAgain: false)
    #expect(!locked.contains(100), "far behind")
    locked.note(100, isAgain: true)
    #expect(locked.contains(101) && !locked.contains(102))
  }
}
