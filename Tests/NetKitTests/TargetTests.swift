import NetKit
import Testing

@Suite struct TargetTests {
  @Test(
    arguments: [
      ("/", "/", [:]), ("/cairn/1/trails/", "/cairn/1/trails", [:]),
      ("/a%20b?x=1%2B1&y=a+b&x=2&z", "/a b", ["x": "1+1", "y": "a b", "z": ""]), ("/%C3%A4?", "/ä", [:]),
      ("/a?b?c", "/a", ["b?c": ""]),
    ] as [(String, String, [String: String])])
  func `path and query are decoded`(text: String, path: String, query: [String: String]) throws {
    let target = try #require(HTTPTarget(text))
    #expect(target.path == path)
    #expect(target.query == query)
  }

  @Test(arguments: [
    "", "*", "a", "//", "//a", "/a//b", "/.", "/a/../b", "/%2e%2E/a", "/a%2fb", "/%", "/%4", "/%zz", "/%00", "/a%0Ab",
    "/%ff", "/a?x=%", "/a?x=%00", "/%+1", "http://x/",
  ]) func `a text that could be read in two ways is refused`(text: String) {
    #expect(HTTPTarget(text) == nil)
  }

  @Test func `an escaped text comes back`() {
    let text = "a b/ä?&=%+~-._"
    #expect(HTTPTarget("/x?q=" + HTTPTarget.escape(text))?.query["q"] == text)
  }

  @Test(
    arguments: [
      ("https://hq.example:7420", true, "hq.example", 7420), ("http://[::1]:80/", false, "::1", 80),
      ("https://10.0.0.1", true, "10.0.0.1", 443),
    ] as [(String, Bool, String, UInt16)])
  func `a base is read`(text: String, isTLS: Bool, host: String, port: UInt16) throws {
    let base = try #require(HTTPBase(text))
    #expect((base.isTLS, base.host, base.port) == (isTLS, host, port))
  }

  @Test(arguments: [
    "", "hq:7420", "ftp://hq", "https://", "https://:7420", "https://hq:0", "https://hq:70000", "https://hq:+7",
    "https://u@hq", "https://hq/x", "https://[::1", "https://[hq]:1", "https://hq:7420?x", "https://h q",
  ]) func `a text that is no base is refused`(text: String) {
    #expect(HTTPBase(text) == nil)
  }
}
