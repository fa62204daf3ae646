import Changes
import Mapping

// Calls of functions, and the constants in statements.
extension Checker {
  mutating func function(_ call: Expression.Call) throws(Unreplayable) -> NamedColumn {
    if let result = Functions.scalar[call.name] {
      switch result {
      case .storage(let storage):
        for argument in call.arguments { try check(argument) }
        if ["trim", "ltrim", "rtrim"].contains(call.name), call.arguments.count > 1 {
          try StatementBounds.check(trimmed: constant(call.arguments[1]))
        }
        return .init(name: "", storage: storage)
      case .ofArguments(let first):
        for argument in call.arguments.prefix(first) { try check(argument) }
        return try same(Array(call.arguments.dropFirst(first)))
      }
    }
    if Functions.dates.contains(call.name) { return try date(call) }
    if ["min", "max"].contains(call.name), call.arguments.count > 1 {
      let value = try same(call.arguments)
      guard value.isBinary, value.storage != nil else {
        throw Unreplayable("\(call.name)() may have several equal values to choose from")
      }
      return value
    }
    throw Unreplayable(Functions.reason(call.name))
  }

  /// Replaces `now` in a date function's call by the statement's time. Throws if the result may differ at the target.
  private mutating func date(_ call: Expression.Call) throws(Unreplayable) -> NamedColumn {
    let place = call.name == "strftime" ? 1 : 0
    for (index, argument) in call.arguments.enumerated() {
      let value = try constant(argument)
      let word = value.flatMap { Self.clockWord($0) }
      guard value != nil, Self.isSettled(word, isTime: index == place) else {
        throw Unreplayable("\(call.name)() has a time that comes from a column, or depends on the time zone")
      }
      guard word == "now" else { continue }
      guard call.ranges.indices.contains(index) else { throw Unreplayable("\(call.name)() is not understood") }
      edits.append(.init(range: call.ranges[index], text: try clockText("NOW").quotedText))
    }
    guard call.arguments.count > place else { throw Unreplayable("\(call.name)() has the time of its execution") }
    let isNumber = ["julianday", "unixepoch"].contains(call.name)
    return .init(name: "", storage: call.name == "julianday" ? .real : isNumber ? .integer : .text)
  }

  func constant(_ expression: Expression) throws(Unreplayable) -> Value? {
    switch expression {
    case .literal(let value): value
    case .parameter(let number): try parameter(number)
    default: nil
    }
  }

  func clockText(_ name: String) throws(Unreplayable) -> String {
    guard let now else { throw Unreplayable("it uses the time, and the source did not record it") }
    let text = ClockText(microseconds: now)
    return switch name {
    case "CURRENT_DATE": text.date
    case "CURRENT_TIME": text.time
    case "CURRENT_TIMESTAMP": "\(text.date) \(text.time)"
    default: "\(text.date) \(text.time).\(text.milliseconds)"
    }
  }
}
