import Steering

extension NodeStatus.LeftSlot {
  /// Creates the status entry for a slot whose capture was removed from the conf. Returns nil if the slot is gone, or
  /// if a capture still reads it.
  package init?(_ left: LeftSlot, _ standing: LeftSlot.Standing) {
    self.init(capture: left.trail.name, slot: left.name, place: left.place, command: left.command)
    switch standing {
    case .gone, .inUse: return nil
    case .left(let bytes): self.bytes = bytes
    case .unknown(let why): problem = why
    }
  }
}
