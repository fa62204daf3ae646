import Changes
import Testing

@testable import Capturing

@Suite struct ServerVersionTests {
  @Test func `a server that no test runs with is refused`() throws {
    for version in [90600, 130022, 140018] {
      let error = #expect(throws: CairnError.self) { try PostgresSource.checkVersion(version, at: "shop") }
      #expect(error?.code == .unsupported)
      #expect(error?.message == "shop is PostgreSQL \(version / 10_000), and capture needs 15 or newer")
    }
    for version in [150000, 180001, 190000] { try PostgresSource.checkVersion(version, at: "shop") }
  }

  @Test(
    arguments: [
      (150012, "15.13"), (150013, nil), (160008, "16.9"), (160009, nil),
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
