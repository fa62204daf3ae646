import Changes

/// An exact decimal number of any size, for sums that do not depend on the order of the additions.
struct Decimal: Equatable, Comparable {
  private var isNegative = false
  /// The digits, least significant first, without leading zeros; empty for zero.
  private var digits: [UInt8] = []
  /// The number of digits after the decimal point.
  private var scale = 0
  /// The largest exponent that is read. A text with a larger exponent counts as no number.
  private static let exponentMax = 20_000

  // MARK: Values

  /// Creates a number from a numeric value; nil for a text and all other values.
  init?(_ value: Value) {
    switch value {
    case .integer(let n): self.init(String(n).utf8)
    case .real(let r) where r.isFinite: self.init(r.description.utf8)
    case .exact(let bytes): self.init(bytes)
    default: return nil
    }
  }

  /// Creates a number from a numeric value, or from a text that contains only a number; nil for all other values.
  init?(number value: Value) {
    if case .text(let bytes) = value { self.init(bytes) } else { self.init(value) }
  }

  init?(_ text: some Sequence<UInt8>) {
    var (hasPoint, exponent, isExponentNegative, hasExponent, count) = (false, 0, false, false, 0)
    for (index, byte) in text.enumerated() {
      switch byte {
      case UInt8(ascii: "-") where index == 0: isNegative = true
      case UInt8(ascii: "+") where index == 0: break
      case UInt8(ascii: ".") where !hasPoint && !hasExponent: hasPoint = true
      case UInt8(ascii: "e"), UInt8(ascii: "E"):
        guard !hasExponent, count > 0 else { return nil }
        (hasExponent, count) = (true, 0)
      case UInt8(ascii: "-") where hasExponent && count == 0 && !isExponentNegative: isExponentNegative = true
      case UInt8(ascii: "+") where hasExponent && count == 0: break
      case UInt8(ascii: "0")...UInt8(ascii: "9"):
        count += 1
        let digit = byte - UInt8(ascii: "0")
        if hasExponent {
          exponent = exponent * 10 + Int(digit)
          guard exponent <= Self.exponentMax else { return nil }
        } else {
          digits.append(digit)
          if hasPoint { scale += 1 }
        }
      default: return nil
      }
    }
    guard count > 0 else { return nil }
    digits.reverse()
    scale += isExponentNegative ? exponent : -exponent
    if scale < 0 { rescale(to: 0) }
    trim()
  }

  /// Returns the number in the storage class of the value `model`; nil if the number does not fit.
  func value(like model: Value) -> Value? {
    switch model {
    case .real: return Double(text).map { .real($0) }
    case .exact: return .exact(Array(text.utf8))
    case .text: return .text(Array(text.utf8))
    default:
      if let n = Int64(text) { return .integer(n) }
      return scale > 0 ? Double(text).map { .real($0) } : nil
    }
  }

  /// The number as text. Trailing zeros after the decimal point are kept.
  var text: String {
    var padded = digits
    while padded.count <= scale { padded.append(0) }
    var text = String(decoding: padded.reversed().map { $0 + UInt8(ascii: "0") }, as: UTF8.self)
    if scale > 0 { text.insert(".", at: text.index(text.endIndex, offsetBy: -scale)) }
    return isNegative ? "-" + text : text
  }

  // MARK: Arithmetic

  static func < (a: Decimal, b: Decimal) -> Bool { (a - b).isNegative }
  static func == (a: Decimal, b: Decimal) -> Bool { (a - b).digits.isEmpty }
  static func - (a: Decimal, b: Decimal) -> Decimal { a + -b }

  static prefix func - (a: Decimal) -> Decimal {
    var negated = a
    negated.isNegative = !a.isNegative && !a.digits.isEmpty
    return negated
  }

  static func + (a: Decimal, b: Decimal) -> Decimal {
    var (a, b) = (a, b)
    let scale = max(a.scale, b.scale)
    a.rescale(to: scale)
    b.rescale(to: scale)
    guard a.isNegative != b.isNegative else {
      a.digits = added(a.digits, b.digits)
      return a
    }
    let isLess = isLess(a.digits, b.digits)
    var difference = isLess ? b : a
    difference.digits = isLess ? subtracted(b.digits, a.digits) : subtracted(a.digits, b.digits)
    difference.trim()
    return difference
  }

  /// Returns the mean of numbers, rounded half away from zero. It has up to six more decimal places than the numbers.
  /// Nil if a value is no number.
  static func mean(_ values: [Value]) -> Value? {
    guard let last = values.last else { return nil }
    var sum = Decimal(0)
    for value in values {
      guard let number = Decimal(number: value) else { return nil }
      sum = sum + number
    }
    let places = sum.scale
    sum.rescale(to: places + 6)
    sum.divide(by: values.count)
    while sum.scale > places, sum.digits.first ?? 0 == 0 { sum.rescale(to: sum.scale - 1) }
    return sum.value(like: last)
  }

  private init(_ zero: Int) {}

  private mutating func divide(by divisor: Int) {
    var rest = 0
    for index in digits.indices.reversed() {
      rest = rest * 10 + Int(digits[index])
      digits[index] = UInt8(rest / divisor)
      rest %= divisor
    }
    if rest * 2 >= divisor { digits = Self.added(digits, [1]) }
    trim()
  }

  /// Changes the number of digits after the decimal point. The digits that are dropped must be zeros.
  private mutating func rescale(to scale: Int) {
    if scale > self.scale {
      if !digits.isEmpty { digits.insert(contentsOf: repeatElement(0, count: scale - self.scale), at: 0) }
    } else {
      digits.removeFirst(min(digits.count, self.scale - scale))
    }
    self.scale = scale
  }

  private mutating func trim() {
    while digits.last == 0 { digits.removeLast() }
    if digits.isEmpty { isNegative = false }
  }

  private static func added(_ a: [UInt8], _ b: [UInt8]) -> [UInt8] {
    var sum: [UInt8] = []
    var carry: UInt8 = 0
    for index in 0..<max(a.count, b.count) {
      let digit = (index < a.count ? a[index] : 0) + (index < b.count ? b[index] : 0) + carry
      sum.append(digit % 10)
      carry = digit / 10
    }
    if carry > 0 { sum.append(carry) }
    return sum
  }

  private static func subtracted(_ a: [UInt8], _ b: [UInt8]) -> [UInt8] {
    var difference: [UInt8] = []
    var borrow: UInt8 = 0
    for index in a.indices {
      let taken = (index < b.count ? b[index] : 0) + borrow
      borrow = a[index] < taken ? 1 : 0
      difference.append(a[index] + borrow * 10 - taken)
    }
    return difference
  }

  private static func isLess(_ a: [UInt8], _ b: [UInt8]) -> Bool {
    a.count != b.count ? a.count < b.count : a.reversed().lexicographicallyPrecedes(b.reversed())
  }
}
