import Changes
import SystemKit

/// A request to a daemon over its control socket: one JSON object on one line. The answer is a ``ControlReply``.
///
/// ```
/// {"version":1,"command":"copy","subject":"pos","tables":["sales"]}
/// ```
package struct ControlRequest: Equatable, Sendable {
  /// The version of the protocol. A daemon refuses requests of another version.
  package static let version: Int64 = 1
  /// The maximum size of a request in bytes.
  package static let bytesMax = (2 << 20) + 65_536

  package enum Command: String, CaseIterable, Sendable {
    case status
    case start
    case stop
    case restart
    case pause
    case resume
    case copy
    /// Leaves out the row at which an apply has stopped.
    case skip
    /// Writes the source's row over the row at which an apply has stopped.
    case takeSource = "take-source"
    case unhook
    case rehook
    case reload
    /// Reads rows or their digests from the source of another node's trail. Only for root and the daemon's own user.
    case question
  }

  package var command: Command
  /// The worker, apply or database that the request is about; empty for none.
  @ByBytes package var subject: String
  @ByBytes package var tables: [String]
  /// The data of the command `question`, in hexadecimal; empty for other commands.
  @ByBytes package var data: String

  /// The end of a pause in µs since 1970 UTC, for the command `pause`; nil for no end.
  package var until: Int64?

  /// The place in the trail at which the operator saw the apply stop, for the commands `skip` and `take-source`.
  package var at: Position?

  package init(
    _ command: Command, _ subject: String = "", tables: [String] = [], data: String = "", until: Int64? = nil,
    at: Position? = nil
  ) {
    (self.command, self.subject, self.tables, self.data) = (command, subject, tables, data)
    (self.until, self.at) = (until, at)
  }

  package var line: String {
    var object = JSONObject([("version", .integer(Self.version)), ("command", .text(command.rawValue))])
    if !subject.isEmpty { object["subject"] = .text(subject) }
    if !tables.isEmpty { object["tables"] = .list(tables.map { .text($0) }) }
    if !data.isEmpty { object["data"] = .text(data) }
    if let until { object["until"] = .text(UTCTime(until).description) }
    if let at { object["at"] = .text(at.description) }
    return object.line
  }

  /// Parses the line of a request.
  ///
  /// - Throws: `usage` if the line is invalid; the message says why.
  package init(parsing line: [UInt8]) throws {
    let value: JSONObject.Value
    do throws(JSONReader.Fault) { value = try JSONReader.read(line) } catch {
      throw Self.refuse("a request is not JSON: \(error)")
    }
    guard case .object(let object) = value else { throw Self.refuse("a request must be a JSON object") }
    guard object.integer("version") == Self.version else {
      throw Self.refuse("a request has no version, or another version than \(Self.version)")
    }
    guard let name = object.text("command"), let command = Command(rawValue: name) else {
      throw Self.refuse("there is no command '\(object.text("command") ?? "")'")
    }
    // An empty list means all tables, so an invalid list must not be read as an empty one.
    let tables = object.list("tables").compactMap { if case .text(let text) = $0 { text } else { nil } }
    let isList = if case .list? = object["tables"] { true } else { object["tables"] == nil }
    guard isList, tables.count == object.list("tables").count else {
      throw Self.refuse("the tables of a request must be a list of strings")
    }
    // A pause with an end that is not understood must not become one without an end.
    let end = object.text("until")
    let until = end.flatMap { TimeText.parse($0, now: 0, zone: LocalTime()) }
    guard object["until"] == nil || until != nil else {
      throw Self.refuse("the end of a pause must be a time such as 2026-11-28T14:00:00Z")
    }
    // A decision without the place that the operator saw might be about another row.
    let at = object.text("at").flatMap { Position($0) }
    guard at != nil || (object["at"] == nil && command != .skip && command != .takeSource) else {
      throw Self.refuse("the place of a row must be a position such as 00000001:00000122")
    }
    self.init(
      command, object.text("subject") ?? "", tables: tables, data: object.text("data") ?? "", until: until, at: at)
  }

  private static func refuse(_ message: String) -> CairnError {
    CairnError(
      .usage, message, hint: "use the same version of cairn and cairnd (docs/reference/control-protocol.md)",
      remedy: .badInput)
  }
}

/// The answer to a ``ControlRequest``, as one JSON object on one line: the result of the request, or an error.
package enum ControlReply: Sendable {
  case done(JSONObject)
  case refused(CairnError)

  package var line: String {
    switch self {
    case .done(let facts):
      JSONObject([("version", .integer(ControlRequest.version)), ("ok", .bool(true)), ("result", .object(facts))]).line
    case .refused(let error):
      JSONObject([
        ("version", .integer(ControlRequest.version)), ("ok", .bool(false)),
        (
          "error",
          .object(
            JSONObject([
              ("code", .text(error.code.rawValue)), ("message", .text(error.message)), ("hint", .text(error.hint)),
            ]))
        ),
      ]).line
    }
  }

  /// Parses the line of an answer; nil for any other text.
  package init?(parsing line: [UInt8]) {
    guard case .object(let object)? = try? JSONReader.read(line), let isDone = object.bool("ok") else { return nil }
    if isDone {
      self = .done(object.object("result") ?? JSONObject())
      return
    }
    guard let error = object.object("error") else { return nil }
    self = .refused(
      CairnError(
        error.text("code").flatMap(ErrorCode.init) ?? .bug, error.text("message") ?? "",
        hint: error.text("hint") ?? ""))
  }
}
