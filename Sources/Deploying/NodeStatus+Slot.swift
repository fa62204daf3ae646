import Steering

extension NodeStatus.LeftSlot {
  /// Nil if nothing is left, or if a capture still reads.
  package init?(_ left: LeftSlot, _ standing: LeftSlot.Standing) {
    self.init(capture: left.trail.name, slot: left.name, place: left.place, command: left.command)
    switch standing {
    case .gone, .inUse: return nil
    case .left(let bytes): self.bytes = bytes
    case .unknown(let why): problem = why
    }
  }
}
