import Changes

extension NodeStatus {
  /// The transfer of a trail between this node and another one, in one direction.
  package struct Path: Sendable {
    package enum Way: String, CaseIterable, Sendable {
      /// This node dials, and sends the trail.
      case push
      /// This node dials, and fetches the trail.
      case pull
      /// The peer dials, and fetches the trail.
      case served
      /// The peer dials, and sends the trail.
      case received

      /// Whether this node sends bytes to the peer.
      package var isOutward: Bool { self == .push || self == .served }
    }

    package enum State: String, CaseIterable, Sendable {
      /// The connection is up, with or without bytes to send.
      case connected
      /// The other side cannot be reached, or has not connected.
      case waiting
      /// The other node refuses the transfer, or its trail and this node's trail of the same name differ.
      case failed
      /// The other node lagged too far, so no segments are kept for it. Its tables are copied again.
      case givenUp = "given_up"
    }

    package var trail: String
    /// The node at the other end, as its certificate or the conf names it.
    package var peer: String
    package var way: Way
    package var state: State
    /// The name of the pump; empty if the peer dials.
    package var worker = ""
    /// The position up to which the receiving node has the trail durably, written `SEGMENT:OFFSET`. If this node sends
    /// the trail, the receiving node is the peer; otherwise it is this node.
    package var durable = ""
    /// The position up to which the receiving node has applied the trail; empty if it has no apply or did not report
    /// it.
    package var applied = ""
    /// The number of bytes of the trail that the other side does not have yet; nil if unknown.
    package var behindBytes: UInt64?
    /// The milliseconds since the other side last had the whole trail durably; nil if unknown. `appliedLagMilliseconds`
    /// is the time since the other side had last applied the whole trail.
    package var durableLagMilliseconds: Double?
    package var appliedLagMilliseconds: Double?
    /// The bytes of the trail that were transferred since the daemon was started.
    package var bytes: UInt64 = 0
    package var bytesPerSecond: Double = 0
    /// The time of the last contact with the other side, in µs since 1970 UTC; nil: never.
    package var seenAt: Int64?
    package var problem: Problem?

    package init(_ trail: String, _ peer: String, _ way: Way, _ state: State) {
      (self.trail, self.peer, self.way, self.state) = (trail, peer, way, state)
    }

    package func isWell(lagMilliseconds lag: Double) -> Bool {
      switch state {
      case .connected: (durableLagMilliseconds ?? 0) <= lag && (appliedLagMilliseconds ?? 0) <= lag
      // If the peer dials, its own node reports its problems, unless this node has bytes for it.
      case .waiting: way == .received || (way == .served && (durableLagMilliseconds ?? .infinity) <= lag)
      case .failed, .givenUp: false
      }
    }
  }
}

extension NodeStatus.Path {
  var json: JSONObject {
    func milliseconds(_ lag: Double?) -> JSONObject.Value { lag.map { .real(($0 * 10).rounded() / 10) } ?? .null }
    return JSONObject([
      ("trail", .text(trail)), ("peer", .text(peer)), ("way", .text(way.rawValue)), ("state", .text(state.rawValue)),
      ("worker", .text(worker)), ("durable", .text(durable)), ("applied", .text(applied)),
      ("behind_bytes", behindBytes.map { .integer(Int64(clamping: $0)) } ?? .null),
      ("durable_lag_ms", milliseconds(durableLagMilliseconds)),
      ("applied_lag_ms", milliseconds(appliedLagMilliseconds)),
      ("bytes", .integer(Int64(clamping: bytes))), ("bytes_per_second", .real(bytesPerSecond.rounded())),
      ("seen_at", seenAt.map { .text(UTCTime($0).description) } ?? .null),
      ("error", problem.map { .object($0.json) } ?? .null),
    ])
  }

  package init?(_ object: JSONObject) {
    guard let trail = object.text("trail"), let peer = object.text("peer"),
      let way = object.text("way").flatMap(Way.init), let state = object.text("state").flatMap(State.init)
    else { return nil }
    self.init(trail, peer, way, state)
    (worker, durable, applied) = (
      object.text("worker") ?? "", object.text("durable") ?? "", object.text("applied") ?? ""
    )
    behindBytes = object.integer("behind_bytes").map { UInt64(clamping: $0) }
    (durableLagMilliseconds, appliedLagMilliseconds) = (object.real("durable_lag_ms"), object.real("applied_lag_ms"))
    bytes = UInt64(clamping: object.integer("bytes") ?? 0)
    bytesPerSecond = object.real("bytes_per_second") ?? 0
    problem = object.object("error").map(NodeStatus.Problem.init)
  }
}
