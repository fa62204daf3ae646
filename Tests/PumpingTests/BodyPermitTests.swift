import Changes
import Testing

@testable import Pumping

@Suite struct BodyPermitTests {
  @Test func `a peer has a few bodies under way, and others have theirs`() throws {
    let permits = BodyPermits()
    var held = try (0..<BodyPermits.ofPeerMax).map { _ in try permits.permit("evil") }
    let error = #expect(throws: CairnError.self) { _ = try permits.permit("evil") }
    #expect(error?.code == .busy)
    try withExtendedLifetime(permits.permit("store")) {}
    held.removeLast()
    held.append(try permits.permit("evil"))
    #expect(throws: CairnError.self) { _ = try permits.permit("evil") }
  }
}
