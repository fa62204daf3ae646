import Changes

extension NodeStatus {
  /// A slot at a PostgreSQL server whose capture was removed from the conf.
  ///
  ///     NodeStatus.LeftSlot(capture: "pos", slot: "cairn_1a2b", place: "postgresql://db/shop", command: command)
  package struct LeftSlot: Equatable, Sendable {
    package var capture: String
    package var slot: String
    /// The server and the database, such as `postgresql://db.example/shop`, without a password.
    package var place: String
    /// The bytes of log that the server keeps for the slot; nil if unknown.
    package var bytes: Int64?
    /// The reason why the server did not answer the question for ``bytes``; nil if it answered.
    package var problem: String?
    /// The shell command that drops the slot.
    package var command: String

    package init(
      capture: String, slot: String, place: String, command: String, bytes: Int64? = nil, problem: String? = nil
    ) {
      (self.capture, self.slot, self.place, self.command) = (capture, slot, place, command)
      (self.bytes, self.problem) = (bytes, problem)
    }

    package var text: String {
      let kept = bytes.map { ": it keeps \(Size.text(bytes: $0)) of log there, and more after every write" } ?? ""
      let doubt = problem.map { ", as far as known (\($0))" } ?? ""
      return "slot \(slot) of capture.\(capture), which is no longer in the conf, is left at \(place)\(kept)\(doubt)"
    }

    package var hint: String {
      "put [capture.\(capture)] back, or drop the slot: \(command)"
        + (problem == nil ? "" : "; if that server is gone for good, remove the folder of the trail")
    }

    package var json: JSONObject {
      JSONObject([
        ("capture", .text(capture)), ("slot", .text(slot)), ("database", .text(place)),
        ("bytes", bytes.map { .integer($0) } ?? .null), ("error", problem.map { .text($0) } ?? .null),
        ("message", .text(text)), ("hint", .text(hint)),
      ])
    }
  }
}
