import Testing

@testable import Capturing

@Suite struct ServerVersionTests {
  @Test(
    arguments: [
      (140017, "14.18"), (140018, nil), (150012, "15.13"), (150013, nil), (160008, "16.9"), (160009, nil),
      (170004, "17.5"), (170005, nil), (180000, nil),
    ] as [(Int, String?)])
  func `servers that can leave out changes are named`(version: Int, least: String?) throws {
    let notice = PostgresSource.versionNotice(version, at: "shop")
    guard let least else {
      #expect(notice == nil)
      return
    }
    #expect(notice?.hasPrefix("shop is PostgreSQL \(version / 10_000).\(version % 10_000), ") == true)
    #expect(notice?.hasSuffix("update the server to \(least) or later") == true)
  }
}
