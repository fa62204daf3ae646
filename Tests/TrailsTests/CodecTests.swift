import Changes
import CodecKit
import Testing

@Suite struct CodecTests {
  @Test func `CRC-32C gives the values of RFC 3720`() {
    #expect(CRC32C.of(Array("123456789".utf8)) == 0xe306_9283)
    #expect(CRC32C.of([UInt8](repeating: 0, count: 32)) == 0x8a91_36aa)
    #expect(CRC32C.of([UInt8](repeating: 0xff, count: 32)) == 0x62a8_ab43)
    #expect(CRC32C.of([]) == 0)
    let bytes = Array(0..<UInt8(200))
    for split in [0, 1, 7, 64, 200] {
      let sum = bytes.withUnsafeBytes {
        CRC32C.of(.init(rebasing: $0[split...]), continuing: CRC32C.of(.init(rebasing: $0[..<split])))
      }
      #expect(sum == CRC32C.of(bytes))
    }
  }

  @Test func `SHA-256 gives the values of FIPS 180-4 again and again`() throws {
    let hasher = try SHA256()
    for _ in 0..<2 {
      hasher.update(Array("abc".utf8))
      #expect(hasher.peek().hex == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
      #expect(hasher.finalize().hex == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
      #expect(hasher.finalize().hex == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    }
    hasher.update(Array("a".utf8))
    _ = hasher.peek()
    hasher.update(Array("bc".utf8))
    let abc = hasher.finalize()
    #expect(abc.hex.hasPrefix("ba7816bf"))
    let chained = abc.withUnsafeBytes { hasher.chain(before: .zero, content: $0) }
    hasher.update([UInt8](repeating: 0, count: 32) + abc)
    #expect(chained.bytes == hasher.finalize())
  }

  @Test func `zstd fills the buffer exactly or fails`() throws {
    let zstd = Zstd()
    let bytes = Array(repeating: Array("cairn ".utf8), count: 500).flatMap(\.self)
    var room = [UInt8](repeating: 0, count: 200)
    let length = bytes.withUnsafeBytes { bytes in room.withUnsafeMutableBytes { zstd.compress(bytes, into: $0) } }
    let frame = Array(room.prefix(try #require(length)))
    var small = [UInt8](repeating: 0, count: 10)
    #expect(bytes.withUnsafeBytes { bytes in small.withUnsafeMutableBytes { zstd.compress(bytes, into: $0) } } == nil)
    for (count, isRight) in [(bytes.count, true), (bytes.count - 1, false), (bytes.count + 1, false), (0, false)] {
      var out = [UInt8](repeating: 0, count: count)
      let result = frame.withUnsafeBytes { frame in out.withUnsafeMutableBytes { zstd.decompress(frame, into: $0) } }
      #expect(result == isRight)
      if isRight { #expect(out == bytes) }
    }
    var out = [UInt8](repeating: 0, count: bytes.count)
    for cut in 0..<frame.count {
      #expect(!frame[..<cut].withUnsafeBytes { f in out.withUnsafeMutableBytes { zstd.decompress(f, into: $0) } })
    }
  }

  @Test func `random bytes differ`() {
    #expect(randomBytes(300).count == 300)
    #expect(randomBytes(16) != randomBytes(16))
  }
}
