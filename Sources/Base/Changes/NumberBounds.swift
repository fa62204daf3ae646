/// The bounds of numbers that come from a trail, a message or a file. Within the bounds, `+ 1`, `- 1` and a conversion
/// to a signed number cannot overflow.
///
///     NumberBounds.isSegment(0xffff_ffff_ffff_ffff)  // false
package enum NumberBounds {
  /// The upper bound of segment numbers, not included: 2^48.
  package static let segments: UInt64 = 1 << 48
  /// The upper bound of transaction numbers, counts and offsets, not included: 2^62.
  package static let numbers: UInt64 = 1 << 62
  /// The upper bound of clocks, not included: 2^62 µs.
  package static let clocks: UInt64 = 1 << 62
  /// The greatest clock of another node to which this node raises its own clock: 2^61 µs, the year 75,000.
  package static let followedClock: UInt64 = 1 << 61
  /// The accepted times: the years -9999 to 9999, in µs since 1970 UTC.
  package static let times: ClosedRange<Int64> = -377_705_116_800_000_000...253_402_300_799_999_999

  package static func isSegment(_ number: UInt64) -> Bool { number > 0 && number < segments }
  package static func isNumber(_ number: UInt64) -> Bool { number < numbers }
  package static func isClock(_ clock: UInt64) -> Bool { clock < clocks }
  package static func isTime(_ microseconds: Int64) -> Bool { times.contains(microseconds) }
}

extension FixedWidthInteger {
  /// Returns the sum; if it overflows, the least or the greatest number of the type.
  ///
  ///     Int64.max.addingBounded(1)  // Int64.max
  package func addingBounded(_ other: Self) -> Self {
    let (sum, isBeyond) = addingReportingOverflow(other)
    return isBeyond ? (other < 0 ? .min : .max) : sum
  }
}

extension NumberBounds {
  /// Returns a number that a database has stored as a signed one; nil unless it is from 0 to 2^62 - 1.
  package static func number(_ stored: Int64) -> UInt64? {
    UInt64(exactly: stored).flatMap { isNumber($0) ? $0 : nil }
  }

  /// Returns a clock that a database has stored as a signed number; nil unless it is from 0 to 2^62 - 1.
  package static func clock(_ stored: Int64) -> UInt64? { UInt64(exactly: stored).flatMap { isClock($0) ? $0 : nil } }
}

extension ByteReader {
  /// Reads a varint below 2^62. Throws ``DecodingError`` for any other number.
  package mutating func readNumber(_ what: StaticString) throws -> UInt64 {
    let at = offset
    let number = try readVarint()
    guard NumberBounds.isNumber(number) else { throw DecodingError(offset: at, problem: "\(what) is \(number)") }
    return number
  }

  /// Reads a clock in µs, a varint below 2^62. Throws ``DecodingError`` for any other number.
  package mutating func readClock() throws -> UInt64 {
    let at = offset
    let clock = try readVarint()
    guard NumberBounds.isClock(clock) else { throw DecodingError(offset: at, problem: "clock is \(clock)") }
    return clock
  }

  /// Reads a time in µs, a zigzag number in the years -9999 to 9999. Throws ``DecodingError`` for others.
  package mutating func readTime() throws -> Int64 {
    let at = offset
    let time = try readZigzag()
    guard NumberBounds.isTime(time) else { throw DecodingError(offset: at, problem: "time is \(time) µs") }
    return time
  }
}
