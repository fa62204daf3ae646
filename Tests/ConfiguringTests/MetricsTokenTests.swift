import Changes
import Testing

@testable import Configuring

/// The token and the certificates of `[metrics]`.
@Suite struct MetricsTokenTests {
  private static let listen = "[metrics]\nlisten = \"0.0.0.0:7421\"\n"

  private func load(_ section: String, _ token: String?) -> LoadedConfiguration {
    let file = ConfCredential(path: "/etc/cairn/credentials/metrics.token", secret: token ?? "")
    return Conf.load(Conf.good + section, credentials: token == nil ? [:] : ["metrics.token": file])
  }

  @Test func `a token is read from its credential, and hidden`() throws {
    let loaded = load(Self.listen, "0123456789abcdef")
    #expect(try loaded.get().metrics?.token == "0123456789abcdef")
    let shown = loaded.settings.first { $0.section == "[metrics]" && $0.key == "token" }
    #expect(shown?.value == "\"********\"")
    #expect(!loaded.notices.contains { $0.contains("password for a database") })
    #expect(try load(Self.listen, nil).get().metrics?.token == nil)
  }

  @Test(arguments: ["", "short", "0123456789 abcdef", "0123456789abcd\u{e9}", String(repeating: "x", count: 2000)])
  func `a token that is short, or that no header carries, is refused`(_ token: String) {
    let loaded = load(Self.listen, token)
    #expect(loaded.configuration == nil && loaded.problems.first?.code == .confValue)
    #expect(loaded.problems.first?.error.hint.contains("openssl rand") == true)
    #expect(loaded.problems.first?.error.message.contains(token.isEmpty ? "?" : token) == false)
  }

  @Test func `a token over plain HTTP, or without a listener, is a notice`() {
    let token = "0123456789abcdef"
    #expect(load(Self.listen, token).notices.contains { $0.contains("goes over plain HTTP") })
    #expect(load("", token).notices.contains { $0.contains("a token for [metrics], which the conf does not have") })
    let loopback = load("[metrics]\nlisten = \"127.0.0.1:7421\"\n", token)
    #expect(!loopback.notices.contains { $0.contains("[metrics]") })
    let tls = "tls = { certificate = \"/a/node.crt\", key = \"/a/node.key\", peers = \"/a/ca.crt\" }\n"
    let secure = load(Self.listen + tls, token)
    #expect(!secure.notices.contains { $0.contains("[metrics]") })
    #expect(secure.configuration?.metrics?.tls?.certificate == "/a/node.crt")
  }
}
