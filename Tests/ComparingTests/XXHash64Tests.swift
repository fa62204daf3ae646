import Changes
import Testing

struct XXHash64Tests {
  /// Source: the sanity checks of xxHash's own tests, and well-known values.
  @Test(arguments: [
    ("", 0xEF46_DB37_51D8_E999 as UInt64), ("a", 0xD24E_C4F1_A98C_6E5B), ("abc", 0x44BC_2CF5_AD77_0999),
    ("Nobody inspects the spammish repetition", 0xFBCE_A83C_8A37_8BF1),
  ])
  func `known texts have their known hashes`(text: String, hash: UInt64) {
    #expect(Array(text.utf8).withUnsafeBytes { XXHash64.of($0) } == hash)
  }
}
