import Configuring
import Testing

@testable import Daemon

@Suite struct PageAccessTests {
  static let token = "0123456789abcdef"

  struct Case: Sendable {
    var token: String? = nil
    var isLoopback = false
    var isTLS = false
    var path = "/status"
    var authorization: String? = nil
    var hasCertificate = false
    var verdict: PageAccess.Verdict
  }

  static let cases: [Case] = [
    Case(isLoopback: true, verdict: .allowed),
    Case(isLoopback: true, path: "/status.json", verdict: .allowed),
    Case(verdict: .closed), Case(path: "/status.json", verdict: .closed),
    Case(path: "/status/log.json", verdict: .closed),
    Case(path: "/", verdict: .closed), Case(path: "/metrics", verdict: .allowed),
    Case(path: "/readyz", verdict: .allowed), Case(path: "/healthz", verdict: .allowed),
    Case(token: token, verdict: .needsToken), Case(token: token, isLoopback: true, verdict: .needsToken),
    Case(token: token, path: "/metrics", verdict: .needsToken), Case(token: token, path: "/healthz", verdict: .allowed),
    Case(token: token, authorization: "Bearer \(token)", verdict: .allowed),
    Case(token: token, authorization: "bearer \(token)", verdict: .allowed),
    Case(token: token, authorization: "Bearer \(token)x", verdict: .needsToken),
    Case(token: token, authorization: "Bearer ", verdict: .needsToken),
    Case(token: token, authorization: "Bearer", verdict: .needsToken),
    Case(token: token, authorization: token, verdict: .needsToken),
    // ann:0123456789abcdef, :0123456789abcdef, 0123456789abcdef
    Case(token: token, authorization: "Basic YW5uOjAxMjM0NTY3ODlhYmNkZWY=", verdict: .allowed),
    Case(token: token, authorization: "Basic OjAxMjM0NTY3ODlhYmNkZWY=", verdict: .allowed),
    Case(token: token, authorization: "Basic MDEyMzQ1Njc4OWFiY2RlZg==", verdict: .needsToken),
    Case(token: token, authorization: "Basic ====", verdict: .needsToken),
    Case(token: token, authorization: "Basic \u{1f600}\u{1f600}", verdict: .needsToken),
    Case(isTLS: true, verdict: .needsCertificate), Case(isTLS: true, path: "/metrics", verdict: .needsCertificate),
    Case(isTLS: true, hasCertificate: true, verdict: .allowed),
    Case(token: token, isTLS: true, hasCertificate: true, verdict: .allowed),
    Case(token: token, isTLS: true, verdict: .needsToken),
    // Without TLS there is no certificate to trust.
    Case(token: token, hasCertificate: true, verdict: .needsToken),
  ]

  @Test(arguments: cases) func `a page is for who may read it`(_ one: Case) {
    let access = PageAccess(token: one.token, isLoopback: one.isLoopback, isTLS: one.isTLS)
    let verdict = access.verdict(
      on: one.path, authorization: one.authorization, hasCertificate: one.hasCertificate)
    #expect(verdict == one.verdict, "\(one)")
  }

  @Test func `texts in Base64 are decoded, others are refused`() {
    #expect(PageAccess.decoded(base64: "") == [])
    #expect(PageAccess.decoded(base64: "Zg==") == Array("f".utf8))
    #expect(PageAccess.decoded(base64: "Zm9vYmE=") == Array("fooba".utf8))
    #expect(PageAccess.decoded(base64: "Zm9vYmFy") == Array("foobar".utf8))
    #expect(PageAccess.decoded(base64: "/+8=") == [0xff, 0xef])
    for text in ["Z", "Zg=", "Zg===", "Zm9v====", "Zm 9", "Zm\n9", "Z=g="] {
      #expect(PageAccess.decoded(base64: text) == nil, "\(text)")
    }
  }

  @Test func `a listener is opened once, tried again after a pause, and opened again when the conf changes`() {
    func wish(_ host: String) -> ListenerUpkeep.Wish { .init(metrics: .init(host: host, port: 7421)) }
    let (a, b, c) = (wish("a"), wish("b"), wish("c"))
    var upkeep = ListenerUpkeep()
    #expect(upkeep.next(nil, now: 0) == .nothing)
    #expect(upkeep.next(a, now: 1) == .open)
    // The port is in use.
    #expect(upkeep.next(a, now: 1000) == .nothing)
    #expect(upkeep.next(a, now: 5001) == .open)
    upkeep.succeeded()
    #expect(upkeep.next(a, now: 20_000) == .nothing)
    #expect(upkeep.next(b, now: 20_001) == .open)
    // Another port is tried at once.
    #expect(upkeep.next(c, now: 20_002) == .open)
    upkeep.succeeded()
    #expect(upkeep.next(nil, now: 20_003) == .close)
    #expect(upkeep.next(nil, now: 20_004) == .nothing)
    #expect(upkeep.next(c, now: 20_005) == .open)
  }
}
