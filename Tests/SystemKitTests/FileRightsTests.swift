import SystemKit
import Testing

@Suite struct FileRightsTests {
  private static let daemon = Account(name: "cairn", user: 100, groups: [200, 201])

  @Test(arguments: [
    (UInt32(0o644), UInt32(1), UInt32(1), true, false), (0o640, 1, 201, true, false), (0o660, 1, 200, true, true),
    (0o600, 1, 1, false, false), (0o600, 100, 1, true, true),
    // The class of the owner counts, also where that of others would give more.
    (0o066, 100, 1, false, false), (0o606, 1, 200, false, false), (0o666, 1, 1, true, true),
  ])
  func `the first class that an account belongs to decides`(
    _ mode: UInt32, _ owner: UInt32, _ group: UInt32, _ canRead: Bool, _ canWrite: Bool
  ) {
    #expect(FileRights.read.areGiven(by: mode, owner: owner, group: group, to: Self.daemon) == canRead)
    #expect(FileRights([.read, .write]).areGiven(by: mode, owner: owner, group: group, to: Self.daemon) == canWrite)
  }

  @Test func `root may do everything`() {
    let root = Account(name: "root", user: 0, groups: [0])
    #expect(FileRights([.read, .write]).areGiven(by: 0, owner: 1, group: 1, to: root))
    #expect(FileRights.read.obstacle(at: "/proc/self/nothing/here", for: root) == nil)
  }
}
