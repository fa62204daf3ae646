import Changes
import Operating

extension NodeStatus {
  /// A slot at a PostgreSQL server whose capture left the conf.
  package struct LeftSlot: Equatable, Sendable {
    package var capture: String
    package var slot: String
    /// The database, without a password.
    package var place: String
    /// The log that the server keeps for the slot; nil: the server did not say.
    package var bytes: Int64?
    /// The reason why the server could not be asked; nil if it answered.
    package var problem: String?
    /// The command that drops the slot.
    package var command: String

    /// Nil if nothing is left, or if a capture still reads.
    package init?(_ left: Operating.LeftSlot, _ standing: Operating.LeftSlot.Standing) {
      (capture, slot, place, command) = (left.trail.name, left.name, left.place, left.command)
      switch standing {
      case .gone, .inUse: return nil
      case .left(let bytes): self.bytes = bytes
      case .unknown(let why): problem = why
      }
    }

    package var text: String {
      let kept = bytes.map { ": it keeps \(Size.text(bytes: $0)) of log there, and more with every write" } ?? ""
      let doubt = problem.map { ", as far as known (\($0))" } ?? ""
      return "slot \(slot) of capture.\(capture), which is not in the conf any more, is left at \(place)\(kept)\(doubt)"
    }

    package var hint: String {
      "put [capture.\(capture)] back, or drop the slot: \(command)"
        + (problem == nil ? "" : "; where that server is gone for good, remove the folder of the trail")
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
