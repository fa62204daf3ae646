import Changes

#if canImport(Glibc)
  import Glibc
#endif

/// A decimal number in a text, with the powers of ten of its first and last digit other than zero.
struct DecimalText {
  /// The powers of ten of the last and the first digit other than zero, such as -1...2 for 120.5; nil for zero.
  private(set) var powers: ClosedRange<Int>?
  private(set) var isNegative = false

  /// Parses a number that PostgreSQL has printed; nil for any other text.
  /// - Parameter hasExponent: Whether an exponent is accepted.
  init?(_ bytes: UnsafeRawBufferPointer, hasExponent: Bool) {
    var at = 0
    func digit(_ index: Int) -> UInt8? {
      index < bytes.count && (0x30...0x39).contains(bytes[index]) ? bytes[index] - 0x30 : nil
    }
    if at < bytes.count, bytes[at] == UInt8(ascii: "-") {
      isNegative = true
      at += 1
    }
    let first = at
    while digit(at) != nil { at += 1 }
    let point = at
    guard point > first, point == first + 1 || digit(first) != 0 else { return nil }
    if at < bytes.count, bytes[at] == UInt8(ascii: ".") {
      at += 1
      guard digit(at) != nil else { return nil }
      while digit(at) != nil { at += 1 }
    }
    let end = at
    var exponent = 0
    if hasExponent, at < bytes.count, bytes[at] | 0x20 == UInt8(ascii: "e") {
      at += 1
      var isDown = false
      if at < bytes.count, bytes[at] == UInt8(ascii: "-") || bytes[at] == UInt8(ascii: "+") {
        isDown = bytes[at] == UInt8(ascii: "-")
        at += 1
      }
      guard digit(at) != nil else { return nil }
      while let next = digit(at), exponent < 100_000 {
        exponent = exponent * 10 + Int(next)
        at += 1
      }
      if isDown { exponent = -exponent }
    }
    guard at == bytes.count else { return nil }
    func power(_ index: Int) -> Int { (index < point ? point - 1 - index : point - index) + exponent }
    func isDigit(_ index: Int) -> Bool { (digit(index) ?? 0) != 0 }
    if let high = (first..<end).first(where: isDigit), let low = (first..<end).last(where: isDigit) {
      powers = power(low)...power(high)
    }
  }

  func fits(_ digits: PostgresType.Digits) -> Bool {
    guard let powers else { return true }
    return powers.lowerBound >= -digits.scale && powers.upperBound < digits.precision - digits.scale
  }

  // MARK: Numbers

  /// Returns the integer that PostgreSQL printed; nil for any other text.
  static func integer(_ bytes: UnsafeRawBufferPointer) -> Int64? {
    var value: Int64 = 0
    let isNegative = bytes.first == UInt8(ascii: "-")
    let first = isNegative ? 1 : 0
    guard bytes.count > first, bytes.count == 1 || bytes[first] != 0x30 else { return nil }
    for index in first..<bytes.count {
      guard (0x30...0x39).contains(bytes[index]) else { return nil }
      let digit = Int64(bytes[index] - 0x30)
      let (tens, isTooLarge) = value.multipliedReportingOverflow(by: 10)
      let (sum, isOver) =
        isNegative ? tens.subtractingReportingOverflow(digit) : tens.addingReportingOverflow(digit)
      guard !isTooLarge, !isOver else { return nil }
      value = sum
    }
    return value
  }

  /// Reads a `double precision` that PostgreSQL has printed; nil for NaN.
  static func double(_ bytes: UnsafeRawBufferPointer) -> Double? { number(bytes, strtod) }

  /// Reads a `real` that PostgreSQL has printed; nil for NaN.
  static func single(_ bytes: UnsafeRawBufferPointer) -> Float? { number(bytes, strtof) }

  private static func number<T: BinaryFloatingPoint>(
    _ bytes: UnsafeRawBufferPointer,
    _ parse: (UnsafePointer<CChar>, UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?) -> T
  ) -> T? {
    if bytes.elementsEqual("Infinity".utf8) { return .infinity }
    if bytes.elementsEqual("-Infinity".utf8) { return -.infinity }
    guard bytes.count < 64, DecimalText(bytes, hasExponent: true) != nil else { return nil }
    return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { text in
      for (index, byte) in bytes.enumerated() { text[index] = CChar(bitPattern: byte) }
      text[bytes.count] = 0
      guard let start = text.baseAddress else { return nil }
      return parse(UnsafePointer(start), nil)
    }
  }
}
