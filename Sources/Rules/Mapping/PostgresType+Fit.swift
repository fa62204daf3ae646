import Changes

// The check whether a type keeps a text unchanged.
extension PostgresType {
  /// Throws if the type would change the text.
  /// - Parameter isExact: Whether PostgreSQL has printed the text, as a value of another type.
  func check(_ bytes: UnsafeRawBufferPointer, isExact: Bool) throws(Misfit) {
    func require(_ condition: Bool, _ reason: @autoclosure () -> String) throws(Misfit) {
      if !condition { throw Misfit(reason()) }
    }
    switch kind {
    case .text: try require(name != "name" || bytes.count <= 63, "it has \(bytes.count.counted("byte"))")
    case .xml, .inet, .range, .enumeration, .record: break
    case .other: try require(name != "\"char\"" || bytes.count <= 1, "it has \(bytes.count.counted("byte"))")
    case .interval(let digits):
      try require(Self.fraction(bytes) <= digits, "it has more than \(digits) digits after the point")
      try require(isExact || keepsFields(bytes), "it has fields that \(name) leaves out")
    case .money:
      try require(isExact || Self.fraction(bytes) <= 2, "it has more than 2 digits after the point")
      try require(isExact || Self.hasThousands(bytes), "it has commas that do not part thousands")
    case .bit(let length):
      try require(bytes.count == length || isExact, "it has \(bytes.count.counted("digit"))")
    case .varbit(let length): try require(bytes.count <= length ?? .max, "it has \(bytes.count.counted("digit"))")
    case .array: if !isExact { try checkElements(bytes) }
    case .bool:
      let isBoolean = ["t", "f", "true", "false", "0", "1"].contains { bytes.elementsEqual($0.utf8) }
      try require(isBoolean, "it is not a boolean")
    case .int2, .int4, .int8, .oid:
      guard let number = DecimalText.integer(bytes) else { throw Misfit("it is not an integer") }
      try checkRange(number)
    case .numeric(let digits):
      if bytes.elementsEqual("NaN".utf8) { return }
      if digits == nil, ["Infinity", "-Infinity"].contains(where: { bytes.elementsEqual($0.utf8) }) { return }
      guard let decimal = DecimalText(bytes, hasExponent: isExact), !decimal.isNegative || decimal.powers != nil else {
        throw Misfit("it is not a number")
      }
      if let digits, !decimal.fits(digits) { throw tooManyDigits }
    case .float4, .float8:
      if bytes.elementsEqual("NaN".utf8) { return }
      guard let number = DecimalText.double(bytes), number.isFinite || isExact else {
        throw Misfit("it is not a number")
      }
      let shortest = kind == .float4 ? DecimalText.single(bytes)?.description : number.description
      guard number.isInfinite || (isExact && kind == .float8) || Self.isShortest(bytes, shortest ?? "") else {
        throw tooManyDigits
      }
    case .varchar(let length):
      guard let length, bytes.count > length else { return }
      let count = bytes.reduce(0) { $0 + ($1 & 0xc0 == 0x80 ? 0 : 1) }
      try require(count <= length, "it has \(count.counted("character"))")
    case .bpchar(let length):
      let count = bytes.reduce(0) { $0 + ($1 & 0xc0 == 0x80 ? 0 : 1) }
      guard let length else { return }
      try require(count <= length, "it has \(count.counted("character"))")
    case .bytea: throw Misfit("it is text")
    case .date: try require(TimeText.isDate(bytes), "it is not a date such as 2024-05-31")
    case .time(let digits):
      try require(
        TimeText.isTime(bytes, digits: digits, zone: .none), "it is not a time such as 09:30:00\(kept(digits))")
    case .timetz(let digits):
      try require(
        TimeText.isTime(bytes, digits: digits, zone: .any), "it is not a time such as 09:30:00+00\(kept(digits))")
    case .timestamp(let digits):
      let isTime = TimeText.isTimestamp(bytes, digits: digits, zone: .utc)
      try require(isTime, "it is not a time such as 2024-05-31 09:30:00\(kept(digits))")
    case .timestamptz(let digits):
      let isTime = TimeText.isTimestamp(bytes, digits: digits, zone: .any)
      try require(isTime, "it is not a time such as 2024-05-31 09:30:00+00\(kept(digits))")
    case .uuid: try require(Self.isPrintedUUID(bytes), "it is not a UUID in lower case")
    case .json: try require(JSONText.isValid(bytes), "it is not JSON")
    case .jsonb: try require(JSONText.isValid(bytes, allowsNUL: false), "it is not JSON that jsonb keeps")
    }
  }

  /// Returns whether an interval has no smaller unit than its type, such as minutes in an `interval day to hour`.
  private func keepsFields(_ bytes: UnsafeRawBufferPointer) -> Bool {
    let fields = name.split(separator: " ").dropFirst()
    guard let last = fields.last, !last.hasPrefix("second"), !bytes.elementsEqual("00:00:00".utf8) else { return true }
    let text = String(decoding: bytes, as: UTF8.self)
    let units = text.split(separator: " ").filter { $0.first?.isLetter == true }
    let known = ["year", "years", "mon", "mons", "day", "days"]
    let order = ["year": 2, "month": 4, "day": 6]
    guard units.allSatisfy({ known.contains(String($0)) }) else { return false }
    if let most = order[String(last)] {
      return !text.contains(":") && units.allSatisfy { known.prefix(most).contains(String($0)) }
    }
    return !text.contains(":") || text.hasSuffix(last == "hour" ? ":00:00" : ":00")
  }

  /// Returns whether all commas in an amount of `money` separate groups of three digits.
  private static func hasThousands(_ bytes: UnsafeRawBufferPointer) -> Bool {
    let whole = bytes.prefix { $0 != UInt8(ascii: ".") }.filter {
      (0x30...0x39).contains($0) || $0 == UInt8(ascii: ",")
    }
    let groups = whole.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false)
    return groups.count < 2 || ((1...3).contains(groups[0].count) && groups.dropFirst().allSatisfy { $0.count == 3 })
  }

  private func kept(_ digits: Int) -> String { " with at most \(digits) digits after the seconds" }

  var tooManyDigits: Misfit { Misfit("it has more digits than \(name) keeps") }

  /// Returns whether `bytes` are the shortest decimal text of a number, with or without `.0`.
  private static func isShortest(_ bytes: UnsafeRawBufferPointer, _ shortest: String) -> Bool {
    if bytes.elementsEqual(shortest.utf8) { return true }
    return shortest.hasSuffix(".0") && bytes.elementsEqual(shortest.utf8.dropLast(2))
  }

  /// Returns whether a UUID has the spelling that PostgreSQL prints.
  static func isPrintedUUID(_ bytes: UnsafeRawBufferPointer) -> Bool {
    bytes.count == 36
      && bytes.enumerated().allSatisfy { index, byte in
        [8, 13, 18, 23].contains(index)
          ? byte == UInt8(ascii: "-") : (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte)
      }
  }

  private static func fraction(_ bytes: UnsafeRawBufferPointer) -> Int {
    guard let point = bytes.lastIndex(of: UInt8(ascii: ".")) else { return 0 }
    let digits = bytes[(point + 1)...].prefix { (0x30...0x39).contains($0) }
    return digits.lastIndex { $0 != 0x30 }.map { $0 - point } ?? 0
  }

  /// Throws if PostgreSQL would round or truncate an element of the array.
  private func checkElements(_ bytes: UnsafeRawBufferPointer) throws(Misfit) {
    guard let element, element.judgesText else { return }
    for text in ArrayText.elements(bytes) {
      var misfit: Misfit?
      text.withUnsafeBytes { bytes in
        do throws(Misfit) { try element.check(bytes, isExact: false) } catch { misfit = error }
      }
      if let misfit { throw Misfit("an element does not fit: \(misfit.reason)") }
    }
  }

  /// Whether PostgreSQL may round, truncate or pad a value of this type.
  private var judgesText: Bool {
    switch kind {
    case .numeric, .varchar, .bpchar, .bit, .varbit, .time, .timetz, .timestamp, .timestamptz, .interval: true
    default: false
    }
  }

  func checkRange(_ number: Int64) throws(Misfit) {
    let fits =
      switch kind {
      case .int2: Int16(exactly: number) != nil
      case .int4: Int32(exactly: number) != nil
      case .oid: UInt32(exactly: number) != nil
      default: true
      }
    if !fits { throw Misfit("it is out of the range of \(name)") }
  }
}
