import Testing

@testable import Configuring

@Suite struct QuantityTests {
  @Test(arguments: [
    ("500 ms", 500), ("10s", 10_000), ("1.5 h", 5_400_000), ("14 days", 1_209_600_000), ("2 weeks", 1_209_600_000),
    ("1 Minute", 60_000), ("0 s", 0),
  ])
  func `durations are read`(_ text: String, _ milliseconds: Int) throws {
    #expect(try Quantity.duration(text) == .milliseconds(milliseconds))
  }

  @Test(arguments: [
    ("20 GiB", 21_474_836_480), ("500MB", 500_000_000), ("1.5 kib", 1536), ("7 B", 7), ("1TiB", 1_099_511_627_776),
  ])
  func `sizes are read`(_ text: String, _ bytes: Int64) throws { #expect(try Quantity.bytes(text) == bytes) }

  @Test(arguments: ["", "s", "-1 s", "1..5 s", "1e3 s", "10", "10 parsecs", "99999999999999 weeks", "ten s", "1 s 2"])
  func `anything else is not`(_ text: String) {
    #expect(throws: Quantity.Misread.self) { try Quantity.duration(text) }
  }

  @Test(arguments: [
    ("500KiB", 512_000), ("10MiB/s", 10_485_760), ("1.5 GB", 1_500_000_000), ("2k", 2048), ("100", 100),
  ])
  func `rates are read`(_ text: String, _ bytes: Int) { #expect(ByteRate(text)?.bytesPerSecond == bytes) }

  @Test(arguments: ["", "0", "fast", "10 MiB/h", "-5k", "inf", "nan", "1e30"])
  func `and no others`(_ text: String) { #expect(ByteRate(text) == nil) }
}
