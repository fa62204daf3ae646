import ControlAPI

extension NodeStatus.LeftSlot {
  /// Creates the status entry of a slot whose capture was removed from the conf. Nil if the slot is gone or in use.
  package init?(_ left: LeftSlot, _ standing: LeftSlot.Standing) {
    self.init(capture: left.trail.name, slot: left.name, place: left.place, command: left.command)
    switch standing {
    case .gone, .inUse: return nil
    case .left(let bytes): self.bytes = bytes
    case .unknown(let why): problem = why
    }
  }
}
