/// A place in a trail: the number of a segment, and a byte in its uncompressed content. Printed `00000003:0001a2c0`.
///
///     Position(segment: 3, offset: 0x1a2c0).description   // "00000003:0001a2c0"
package struct Position: Comparable, Hashable, Sendable, CustomStringConvertible {
  package var segment: UInt64
  package var offset: UInt64

  package init(segment: UInt64, offset: UInt64) {
    self.segment = segment
    self.offset = offset
  }

  /// Reads a position from its text; nil for any other text, or if a number is out of bounds.
  package init?(_ text: String) {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == 2, let segment = UInt64(parts[0], radix: 16), let offset = UInt64(parts[1], radix: 16),
      segment < NumberBounds.segments, NumberBounds.isNumber(offset)
    else { return nil }
    self.init(segment: segment, offset: offset)
  }

  /// Creates a position from the signed numbers that a database stores; nil if one of them is out of bounds.
  package init?(storedSegment segment: Int64, offset: Int64) {
    guard let segment = UInt64(exactly: segment), segment < NumberBounds.segments,
      let offset = NumberBounds.number(offset)
    else { return nil }
    self.init(segment: segment, offset: offset)
  }

  package static let start = Position(segment: 1, offset: 0)

  package static func < (a: Position, b: Position) -> Bool {
    (a.segment, a.offset) < (b.segment, b.offset)
  }

  package var description: String { "\(segment.hex(8)):\(offset.hex(8))" }
}

/// The random identity of one trail, drawn when the trail is created: 16 bytes.
///
///     TrailID(hex: "00112233445566778899aabbccddeeff")?.bytes.count   // 16
package struct TrailID: Hashable, Sendable, CustomStringConvertible {
  package let bytes: [UInt8]
  package init?(_ bytes: some Collection<UInt8>) {
    guard bytes.count == 16 else { return nil }
    self.bytes = Array(bytes)
  }
  /// Reads an id from its text of 32 hexadecimal digits; nil for any other text.
  package init?(hex text: String) {
    guard let bytes = [UInt8](hex: text) else { return nil }
    self.init(bytes)
  }
  package var description: String { bytes.hex }
}

/// The SHA-256 hash of a trail's content before a position (`docs/trail-format.md`, Chain hash): 32 bytes.
///
///     ChainHash(Array(repeating: 0, count: 32)) == .zero   // true
///     ChainHash([1])   // nil: not 32 bytes
package struct ChainHash: Hashable, Sendable, CustomStringConvertible {
  package let bytes: [UInt8]
  package init?(_ bytes: some Collection<UInt8>) {
    guard bytes.count == 32 else { return nil }
    self.bytes = Array(bytes)
  }
  /// Reads a chain hash from its text of 64 hexadecimal digits; nil for any other text.
  package init?(hex text: String) {
    guard let bytes = [UInt8](hex: text) else { return nil }
    self.init(bytes)
  }
  package static let zero = ChainHash(Array(repeating: 0, count: 32)).unsafelyUnwrapped
  package var description: String { bytes.hex }
}

/// The place up to which a reader has durably processed a trail, always after a commit, with the trail's chain hash
/// there.
///
///     Checkpoint(trail: id, position: Position(segment: 3, offset: 64), chain: chain)
package struct Checkpoint: Hashable, Sendable {
  package var trail: TrailID
  package var position: Position
  package var chain: ChainHash
  package init(trail: TrailID, position: Position, chain: ChainHash) {
    self.trail = trail
    self.position = position
    self.chain = chain
  }
}

/// The name of a trail: the node, and the name of the capture that writes it. Printed `NODE.NAME`.
///
///     TrailName("till.pos")?.origin   // "till"
///     TrailName(origin: "till", name: "pos").description   // "till.pos"
package struct TrailName: Hashable, Sendable, CustomStringConvertible {
  package let origin: String
  package let name: String

  package init(origin: String, name: String) {
    self.origin = origin
    self.name = name
  }

  /// Reads a name from `NODE.NAME`; nil for other text. The node's name ends at the first dot.
  package init?(_ text: String) {
    guard let dot = text.firstIndex(of: ".") else { return nil }
    let origin = String(text[..<dot])
    let name = String(text[text.index(after: dot)...])
    guard Self.isValid(origin), Self.isValid(name) else { return nil }
    self.init(origin: origin, name: name)
  }

  package static func isValid(_ part: String) -> Bool {
    !part.isEmpty && part.utf8.count <= 200
      && part.utf8.allSatisfy {
        (0x30...0x39).contains($0) || (0x41...0x5a).contains($0) || (0x61...0x7a).contains($0) || $0 == 0x2d
          || $0 == 0x5f
      }
  }

  package var description: String { "\(origin).\(name)" }
}
