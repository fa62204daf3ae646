import Changes

extension Configuration {
  /// `[trail.NAME] keep`: the part of a trail to keep besides what its readers need. With both bounds, history ends at
  /// the one that is reached first.
  ///
  ///     Configuration.History(age: .seconds(7 * 86_400)).text   // "7 d"
  package struct History: Equatable, Sendable {
    /// The age up to which transactions are kept; nil for no bound.
    package var age: Duration?
    /// The size of the newest segments that are kept, in bytes; nil for no bound.
    package var bytes: Int64?

    package init(age: Duration? = nil, bytes: Int64? = nil) { (self.age, self.bytes) = (age, bytes) }

    /// The bounds in words, such as `7 d, at most 50 GiB`.
    package var text: String {
      let size = bytes.map { bytes in
        let unit = Quantity.byteUnits.prefix(5).last { Double(bytes) >= $0.bytes } ?? Quantity.byteUnits[0]
        let tenths = (Double(bytes) / unit.bytes * 10).rounded() / 10
        return "\(tenths == tenths.rounded() ? String(Int(tenths)) : tenths.description) \(unit.name)"
      }
      return [age.map { OptionKind.text($0) }, size].compactMap { $0 }.joined(separator: ", at most ")
    }
  }
}

extension TrailName {
  /// Whether both parts can be names in a conf.
  var isConfName: Bool { OptionReader.isName(origin) && OptionReader.isName(name) }
}

extension OptionReader {
  /// Reads `"7 days"`, `"50 GiB"`, or a list of one of each.
  mutating func history(_ node: TomlNode, _ option: OptionTable.Option) -> OptionValue? {
    var bounds = [node]
    if case .array(let elements) = node.value { bounds = elements }
    if bounds.isEmpty { refuse(node.place, "\(option.key) is empty", Self.write(option)) }
    var history = Configuration.History()
    for bound in bounds {
      let isSize = if case .string(let text) = bound.value { (try? Quantity.bytes(text)) != nil } else { false }
      switch isSize ? size(bound, option) : duration(bound, option, .seconds(60) ... .seconds(3_153_600_000)) {
      case .duration(let age) where history.age == nil: history.age = age
      case .bytes(let bytes) where history.bytes == nil: history.bytes = bytes
      case nil: return nil
      default:
        twice(bound.place, "\(option.key) has two \(isSize ? "sizes" : "durations")")
        return nil
      }
    }
    return bounds.isEmpty ? nil : .history(history)
  }
}
