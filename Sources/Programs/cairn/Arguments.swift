import Changes

/// The operands and options of a command, parsed from the command line.
struct Arguments {
  private(set) var operands: [String] = []
  private var values: [String: String] = [:]
  private var switches: Set<String> = []
  private let command: String

  /// Parses words such as `--name value` and `--name=value`; `--` ends the options.
  /// - Throws: `usage` for an unknown option, with the most similar one as a suggestion.
  init(_ words: [String], of command: any Command.Type) throws {
    self.command = command.name
    var rest = words[...]
    while let word = rest.popFirst() {
      guard word.hasPrefix("-"), word != "-" else {
        operands.append(word)
        continue
      }
      if word == "--" {
        operands += rest
        return
      }
      let parts = word.split(at: "=", maxSplits: 1, omittingEmpty: false)
      let name = parts[0]
      guard let option = command.options.first(where: { $0.name == name }) else {
        let near = name.nearest(in: command.options.map(\.name))
        throw usage("option \(name) is unknown", near.map { "did you mean \($0)?" })
      }
      if let value = option.value {
        guard let given = parts.count == 2 ? parts[1] : rest.popFirst() else {
          throw usage("option \(name) needs a value (\(value))", nil)
        }
        guard values.updateValue(given, forKey: name) == nil else { throw usage("option \(name) is given twice", nil) }
      } else {
        guard parts.count == 1 else { throw usage("option \(name) takes no value", nil) }
        switches.insert(name)
      }
    }
  }

  func has(_ name: String) -> Bool { switches.contains(name) }
  func value(_ name: String) -> String? { values[name] }

  func required(_ name: String) throws -> String {
    guard let value = values[name] else { throw usage("option \(name) is missing", nil) }
    return value
  }

  /// Returns the operands.
  ///
  /// - Throws: `usage` if their number is outside of the range.
  func operands(_ range: ClosedRange<Int>) throws -> [String] {
    guard range.contains(operands.count) else {
      throw usage(
        operands.count > range.upperBound
          ? "'\(operands[range.upperBound])' is one argument too many" : "an argument is missing after the command", nil
      )
    }
    return operands
  }

  func usage(_ message: String, _ hint: String?) -> CairnError {
    let message = URLPassword.hidden(in: message)
    return CairnError(
      .usage, message, hint: (hint.map { $0 + " " } ?? "") + "see 'cairn \(command) --help'", remedy: .badInput)
  }
}
