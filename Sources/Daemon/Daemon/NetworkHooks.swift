import Changes
import Configuring
import ControlAPI
import Pumping
import ServiceKit
import SystemKit
import Trails

/// The functions by which pumps and the listener read the state of this node and report to it.
struct NetworkHooks {
  let context: ServiceContext
  /// Returns the name under which a peer's position in a trail is stored; nil if no segments are kept for the peer.
  let reader: @Sendable (_ peer: String, TrailName) -> WorkerName?
  let worker: WorkerName
  /// Returns the plan of the segments that may be deleted.
  let plan: @Sendable () -> RetentionPlan
  /// The node from which a pump fetches trails; nil for a pump that pushes, and for the listener.
  var dialled: String?

  var hooks: PumpHooks {
    let (context, reader, worker, plan, dialled) = (context, reader, worker, plan, dialled)
    var hooks = PumpHooks()
    hooks.applied = { context.applied($0) }
    hooks.isOpen = { context.isOpen($0) }
    hooks.requests = { trail in
      // Requests for a trail of this node are not forwarded: this node makes the copies.
      guard trail.origin != context.node else { return [] }
      return context.requests.open(trail).map { Pumping.CopyRequest(id: $0.id, tables: $0.tables) }
    }
    hooks.allRequests = {
      var all: [TrailName: [Pumping.CopyRequest]] = [:]
      for request in context.requests.all where !request.isDone {
        guard let trail = TrailName(request.trail), trail.origin != context.node else { continue }
        all[trail, default: []].append(Pumping.CopyRequest(id: request.id, tables: request.tables))
      }
      return all
    }
    hooks.asked = { peer, trail, asked in
      let now = Clock.system.microseconds()
      context.requests.settle(of: peer, trail, besides: asked.map(\.id))
      return asked.count { !context.requests.note($0.id, trail, $0.tables, from: peer, now: now) }
    }
    hooks.questions = context.questions
    hooks.answer = { asker, trail, question, isOver in
      try context.answer(question, about: trail, of: asker, isOver: isOver)
    }
    hooks.snapshots = { context.configuration.snapshots(for: $0) }
    hooks.snapshotFiles = { try context.snapshotFiles($0) }
    hooks.dialled = dialled
    hooks.full = {
      guard let dialled else { return context.hasRoom(plan) ? nil : IntakeGate.full(context.node) }
      return context.obstacle(for: dialled, plan)
    }
    hooks.surplus = { trail in dialled.flatMap { context.obstacle(for: $0, beginning: trail) } }
    hooks.come = { bytes in
      guard let dialled else { return context.intake.note(bytes) }
      context.intake.note(bytes, of: dialled)
    }
    hooks.acknowledged = { peer, trail, place in
      guard let key = reader(peer, trail).map({ PeerRegistry.Key($0, trail) }), let id = context.id(of: trail) else {
        return
      }
      let entry = PeerRegistry.Entry(
        id: id.description, segment: place.segment, offset: place.offset, seenAt: Clock.system.microseconds())
      context.peers.note(entry, of: key)
    }
    hooks.peerApplied = { peer, trail, position in
      guard let key = reader(peer, trail).map({ PeerRegistry.Key($0, trail) }) else { return }
      context.peers.note(applied: position, seenAt: Clock.system.microseconds(), of: key)
    }
    hooks.restarted = { trail in
      context.tell(worker, "starting the copy of trail \(trail) again: its node deleted the segments in between")
      context.twoWays.noteRestarted(trail)
      for apply in context.configuration.applies where apply.trail == trail.description {
        context.restart(.init(.apply, apply.name))
      }
    }
    return hooks
  }
}
