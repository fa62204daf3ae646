import Changes
import Configuring
import Testing

@Suite struct PeerURLTests {
  @Test(arguments: [
    ("https://hq.example:7420", "https://hq.example:7420"), ("https://HQ/", "https://hq:7420"),
    ("http://127.0.0.1:80", "http://127.0.0.1:80"), ("https://[2001:DB8::1]:7420", "https://[2001:db8::1]:7420"),
    ("https://[::1]", "https://[::1]:7420"),
  ])
  func `a node's URL is read, and written as one`(_ row: (text: String, url: String)) {
    #expect(PeerURL(row.text)?.description == row.url)
    #expect(PeerURL(row.url)?.description == row.url)
  }

  @Test(arguments: [
    "hq:7420", "https://", "https://hq:0", "https://hq:74200", "https://hq/cairn", "https://a b", "https://u@hq",
    "https://[::1", "https://[hq]:1", "https://-a", "ftp://hq", "https://hq:",
  ])
  func `anything else is none`(_ text: String) { #expect(PeerURL(text) == nil) }

  @Test func `loopback differs from other machines`() {
    let there = ["http://localhost", "http://127.1.2.3:1", "http://[::1]:1"].map { PeerURL($0)?.isLoopback }
    #expect(there == [true, true, true])
    let others = ["http://127.example", "http://10.0.0.1", "http://[::2]"].map { PeerURL($0)?.isLoopback }
    #expect(others == [false, false, false])
  }

  @Test func `the last pattern of trails that matches counts, and without any there is none`() {
    let stores = TrailPatterns(["store-*.pos", "!store-007.*", "store-007.erp"])
    #expect(["store-1.pos", "store-007.erp"].allSatisfy(stores.includes))
    #expect(!["store-007.pos", "store-1.erp", "hq.pos"].contains(where: stores.includes))
    #expect(stores.names == ["store-007.erp"])
    #expect(!TrailPatterns([]).includes("a.b") && TrailPatterns(["!c.d"]).includes("a.b"))
  }
}
