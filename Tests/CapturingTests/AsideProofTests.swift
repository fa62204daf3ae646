import PostgresKit
import Testing

@testable import Capturing

/// When it is certain that nobody but applies has committed anything.
struct AsideProofTests {
  private func finding(
    _ proof: inout AsideProof, _ now: String, applied: Set<UInt64> = [], running: Set<UInt32> = []
  ) throws -> AsideProof.Finding {
    proof.look(at: try #require(ServerMoment(now)), applied: applied.contains, running: running)
  }

  private func proof(_ passed: String, message: UInt64) throws -> AsideProof {
    AsideProof(passed: try #require(ServerMoment(passed)), message: message)
  }

  @Test func `what applies have told of, and the message, count as theirs`() throws {
    var proof = try proof("10:10:", message: 10)
    #expect(try finding(&proof, "11:11:") == .alone([]))
    #expect(try finding(&proof, "13:13:", applied: [11, 12]) == .alone([11, 12]))
    #expect(try finding(&proof, "13:13:") == .alone([]))
  }

  @Test func `a transaction that nobody told of is somebody else's`() throws {
    var proof = try proof("10:10:", message: 10)
    #expect(try finding(&proof, "13:13:", applied: [11]) == .others)
  }

  @Test func `one that ran when it began is as well, once it has ended`() throws {
    var proof = try proof("8:10:8", message: 10)
    #expect(try finding(&proof, "8:11:8") == .open)
    #expect(try finding(&proof, "11:11:") == .others)
  }

  @Test func `nothing is proven while somebody else's runs, whose commit may be in the log`() throws {
    var proof = try proof("10:10:", message: 10)
    #expect(try finding(&proof, "11:14:11,13", applied: [12], running: [13]) == .open)
    #expect(try finding(&proof, "13:14:13", applied: [12], running: [13]) == .others)
  }

  @Test func `what sessions of applies run is theirs before they tell of it, and has to be told of when it ends`()
    throws
  {
    var proof = try proof("10:10:", message: 10)
    #expect(try finding(&proof, "11:12:11", running: [11]) == .alone([]))
    #expect(try finding(&proof, "12:13:12", applied: [11], running: [12]) == .alone([11]))
    #expect(try finding(&proof, "13:13:") == .others)
  }

  @Test func `of sessions only the low half of a number is known`() throws {
    var proof = try proof("4294967300:4294967300:", message: 4_294_967_300)
    #expect(try finding(&proof, "4294967301:4294967302:4294967301", running: [5]) == .alone([]))
  }

  @Test func `a server that has gone back proves nothing`() throws {
    var proof = try proof("10:10:", message: 10)
    #expect(try finding(&proof, "9:9:") == .others)
  }
}
