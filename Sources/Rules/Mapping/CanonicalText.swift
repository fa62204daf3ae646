import Changes

// Canonical forms: all spellings of one number, or of one moment, give the same bytes.
extension ByteWriter {
  private static let numberTag: UInt8 = 7
  private static let timeTag: UInt8 = 8

  /// Appends a decimal number in a form that is the same for equal numbers. Any other text is appended as text.
  mutating func appendNumber(_ bytes: UnsafeRawBufferPointer) {
    guard let decimal = DecimalText(bytes, hasExponent: true) else { return appendText(bytes) }
    append(Self.numberTag)
    guard let powers = decimal.powers else { return append(0) }
    append(decimal.isNegative ? 2 : 1)
    appendZigzag(Int64(powers.lowerBound))
    var left = powers.upperBound - powers.lowerBound + 1
    appendVarint(UInt64(left))
    for byte in bytes.drop(while: { !(0x31...0x39).contains($0) }) where (0x30...0x39).contains(byte) {
      if left == 0 { break }
      append(byte)
      left -= 1
    }
  }

  mutating func appendNumber(_ text: String) {
    var text = text
    text.withUTF8 { appendNumber(UnsafeRawBufferPointer($0)) }
  }

  /// Appends the value of a `bytea`, which PostgreSQL prints as `\x00ff`, as a blob. Any other text is appended as
  /// text.
  mutating func appendBlob(printed bytes: UnsafeRawBufferPointer) {
    guard bytes.count >= 2, bytes.count % 2 == 0, bytes[0] == UInt8(ascii: "\\"), bytes[1] == UInt8(ascii: "x") else {
      return appendText(bytes)
    }
    append(ValueTag.blob)
    appendVarint(UInt64(bytes.count / 2 - 1))
    reserve(bytes.count / 2)
    for index in stride(from: 2, to: bytes.count, by: 2) {
      append(Self.digit(bytes[index]) << 4 | Self.digit(bytes[index + 1]))
    }
  }

  private static func digit(_ byte: UInt8) -> UInt8 { byte < 0x40 ? byte & 15 : (byte & 15) + 9 }

  /// Appends a time or a timestamp that PostgreSQL has printed, in UTC and without its zone. Any other text is appended
  /// as text.
  mutating func appendTime(_ bytes: UnsafeRawBufferPointer, _ kind: PostgresType.Kind) {
    guard let moment = Moment(bytes, kind) else { return appendText(bytes) }
    append(Self.timeTag)
    moment.append(to: &self)
  }
}

/// A time of day, with or without a date, split into its parts.
private struct Moment {
  private var date: UnsafeRawBufferPointer
  private var moved: [UInt8] = []
  private var time: (UInt8, UInt8, UInt8, UInt8, UInt8, UInt8) = (0x30, 0x30, 0x30, 0x30, 0x30, 0x30)
  private var fraction: UnsafeRawBufferPointer
  private var isBC = false

  init?(_ bytes: UnsafeRawBufferPointer, _ kind: PostgresType.Kind) {
    let nothing = UnsafeRawBufferPointer(rebasing: bytes[..<0])
    (date, fraction) = (nothing, nothing)
    var end = bytes.count
    if bytes.suffix(3).elementsEqual(" BC".utf8) {
      isBC = true
      end -= 3
    }
    var at = 0
    if case .time = kind {
    } else {
      while at < end, bytes[at] != UInt8(ascii: " "), bytes[at] != UInt8(ascii: "T") { at += 1 }
      date = UnsafeRawBufferPointer(rebasing: bytes[..<at])
      guard date.count >= 10, date[date.count - 3] == UInt8(ascii: "-") else { return nil }
      if at == end { return }
      at += 1
    }
    func digit(_ index: Int) -> UInt8? {
      index < end && (0x30...0x39).contains(bytes[index]) ? bytes[index] : nil
    }
    guard let hour = digit(at), let hours = digit(at + 1), at + 2 < end, bytes[at + 2] == UInt8(ascii: ":"),
      let minute = digit(at + 3), let minutes = digit(at + 4)
    else { return nil }
    time = (hour, hours, minute, minutes, 0x30, 0x30)
    at += 5
    if at < end, bytes[at] == UInt8(ascii: ":") {
      guard let second = digit(at + 1), let seconds = digit(at + 2) else { return nil }
      (time.4, time.5) = (second, seconds)
      at += 3
      if at < end, bytes[at] == UInt8(ascii: ".") {
        let start = at + 1
        at = start
        while digit(at) != nil { at += 1 }
        var last = at
        while last > start, bytes[last - 1] == 0x30 { last -= 1 }
        fraction = UnsafeRawBufferPointer(rebasing: bytes[start..<last])
      }
    }
    if at == end { return }
    let zone = UnsafeRawBufferPointer(rebasing: bytes[at..<end])
    if zone.elementsEqual("Z".utf8) { return }
    guard case .timestamptz = kind, let offset = Self.seconds(zone) else { return nil }
    if offset == 0 { return }
    guard move(by: -offset) else { return nil }
  }

  private static func seconds(_ zone: UnsafeRawBufferPointer) -> Int? {
    guard let sign = zone.first, sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-") else { return nil }
    let digits = zone.dropFirst().filter { $0 != UInt8(ascii: ":") }
    guard [2, 4, 6].contains(digits.count), digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    var seconds = 0
    for (index, digit) in digits.enumerated() {
      let unit = [3600, 60, 1][index / 2]
      seconds += Int(digit - 0x30) * (index % 2 == 0 ? 10 * unit : unit)
    }
    return sign == UInt8(ascii: "-") ? -seconds : seconds
  }

  /// Converts the date and time to UTC by adding `seconds`. Returns false for years BC, and for years of more than four
  /// digits.
  private mutating func move(by seconds: Int) -> Bool {
    guard !isBC, date.count == 10 else { return false }
    func pair(_ high: UInt8, _ low: UInt8) -> Int { Int(high) * 10 + Int(low) - 0x30 * 11 }
    let year = pair(date[0], date[1]) * 100 + pair(date[2], date[3])
    let day = Self.days(year, pair(date[5], date[6]), pair(date[8], date[9]))
    let second = pair(time.0, time.1) * 3600 + pair(time.2, time.3) * 60 + pair(time.4, time.5) + seconds
    let rest = (second % 86_400 + 86_400) % 86_400
    let there = Self.date(day + (second - rest) / 86_400)
    guard (1...9999).contains(there.year) else { return false }
    func digits(_ value: Int, _ width: Int) -> [UInt8] {
      let text = Array(String(value).utf8)
      return Array(repeating: 0x30, count: max(0, width - text.count)) + text
    }
    moved = digits(there.year, 4) + [0x2d] + digits(there.month, 2) + [0x2d] + digits(there.day, 2)
    let (h, m, s) = (digits(rest / 3600, 2), digits(rest / 60 % 60, 2), digits(rest % 60, 2))
    time = (h[0], h[1], m[0], m[1], s[0], s[1])
    return true
  }

  /// Returns the number of days from 1970-01-01 to a date of the Gregorian calendar.
  private static func days(_ year: Int, _ month: Int, _ day: Int) -> Int {
    let shifted = month > 2 ? year : year - 1
    let cycle = (shifted >= 0 ? shifted : shifted - 399) / 400
    let yearOfCycle = shifted - cycle * 400
    let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
    return cycle * 146_097 + yearOfCycle * 365 + yearOfCycle / 4 - yearOfCycle / 100 + dayOfYear - 719_468
  }

  private static func date(_ day: Int) -> (year: Int, month: Int, day: Int) {
    let shifted = day + 719_468
    let cycle = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
    let dayOfCycle = shifted - cycle * 146_097
    let year = (dayOfCycle - dayOfCycle / 1460 + dayOfCycle / 36_524 - dayOfCycle / 146_096) / 365
    let dayOfYear = dayOfCycle - (365 * year + year / 4 - year / 100)
    let month = (5 * dayOfYear + 2) / 153
    return (
      cycle * 400 + year + (month >= 10 ? 1 : 0), month < 10 ? month + 3 : month - 9,
      dayOfYear - (153 * month + 2) / 5 + 1
    )
  }

  func append(to form: inout ByteWriter) {
    let day = moved.isEmpty ? date.count : moved.count
    form.appendVarint(UInt64(day + 6 + fraction.count + (isBC ? 1 : 0)))
    if moved.isEmpty { form.append(date) } else { form.append(moved) }
    for byte in [time.0, time.1, time.2, time.3, time.4, time.5] { form.append(byte) }
    form.append(fraction)
    if isBC { form.append(UInt8(ascii: "B")) }
  }
}
