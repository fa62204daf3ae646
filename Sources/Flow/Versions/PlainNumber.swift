import Changes

/// A number from a text in normal form: digits without zeros at either end, and a power of ten. `-0120.50` has the
/// digits 1205 and the power -1.
struct PlainNumber {
  private(set) var isNegative = false
  /// The digits, most significant first; empty for zero.
  private(set) var digits: [UInt8] = []
  private(set) var power = 0
  private(set) var integer: Int64?
  /// The longest text that is read as a number, in bytes.
  private static let digitsMax = 20_000

  init?(_ text: UnsafeRawBufferPointer) {
    guard let first = text.first, first <= UInt8(ascii: "9"), text.count <= Self.digitsMax else {
      return nil
    }
    if let small = Self.small(text) {
      integer = small
      return
    }
    guard read(text) else { return nil }
    trim()
    integer = wholeNumber
  }

  /// Parses an optional sign and up to 18 digits; nil for other texts.
  private static func small(_ text: UnsafeRawBufferPointer) -> Int64? {
    let start = text.first == UInt8(ascii: "-") ? 1 : 0
    guard text.count > start, text.count - start <= 18 else { return nil }
    var value: Int64 = 0
    for byte in text[start...] {
      guard byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") else { return nil }
      value = value * 10 + Int64(byte - UInt8(ascii: "0"))
    }
    return start == 1 ? -value : value
  }

  private mutating func read(_ text: UnsafeRawBufferPointer) -> Bool {
    var at = 0
    func digit() -> UInt8? {
      guard at < text.count, text[at] >= UInt8(ascii: "0"), text[at] <= UInt8(ascii: "9") else {
        return nil
      }
      return text[at] - UInt8(ascii: "0")
    }
    if text[at] == UInt8(ascii: "-") || text[at] == UInt8(ascii: "+") {
      isNegative = text[at] == UInt8(ascii: "-")
      at += 1
    }
    while let next = digit() {
      digits.append(next)
      at += 1
    }
    if at < text.count, text[at] == UInt8(ascii: ".") {
      at += 1
      while let next = digit() {
        digits.append(next)
        power -= 1
        at += 1
      }
    }
    guard !digits.isEmpty else { return false }
    if at < text.count, text[at] | 0x20 == UInt8(ascii: "e") {
      at += 1
      var isDown = false
      if at < text.count, text[at] == UInt8(ascii: "-") || text[at] == UInt8(ascii: "+") {
        isDown = text[at] == UInt8(ascii: "-")
        at += 1
      }
      var (exponent, count) = (0, 0)
      while let next = digit() {
        exponent = exponent * 10 + Int(next)
        (at, count) = (at + 1, count + 1)
        guard exponent <= Self.digitsMax else { return false }
      }
      guard count > 0 else { return false }
      power += isDown ? -exponent : exponent
    }
    return at == text.count
  }

  private mutating func trim() {
    while digits.last == 0 {
      digits.removeLast()
      power += 1
    }
    digits.removeFirst(digits.prefix { $0 == 0 }.count)
    if digits.isEmpty { (isNegative, power) = (false, 0) }
  }

  private var wholeNumber: Int64? {
    guard power >= 0, digits.count + power <= 19 else { return nil }
    var value: Int64 = 0
    for digit in digits + Array(repeating: 0, count: power) {
      let (tens, isTooLarge) = value.multipliedReportingOverflow(by: 10)
      let (sum, isOver) =
        isNegative
        ? tens.subtractingReportingOverflow(Int64(digit))
        : tens.addingReportingOverflow(Int64(digit))
      guard !isTooLarge, !isOver else { return nil }
      value = sum
    }
    return value
  }
}
