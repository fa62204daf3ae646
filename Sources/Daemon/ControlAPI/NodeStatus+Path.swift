import Changes

extension NodeStatus {
  /// The transfer of a trail between this node and a peer, in one direction.
  ///
  ///     NodeStatus.Path("till.pos", "hq", .push, .waiting)
  package struct Path: Sendable {
    package enum Direction: String, CaseIterable, Sendable {
      /// This node connects, and sends the trail.
      case push
      /// This node connects, and fetches the trail.
      case pull
      /// The peer connects, and fetches the trail.
      case served
      /// The peer connects, and sends the trail.
      case received

      package var isOutward: Bool { self == .push || self == .served }
    }

    package enum State: String, CaseIterable, Sendable {
      case connected
      /// There is no connection: the peer cannot be reached, or has not connected for at least 25 s.
      case waiting
      /// The transfer failed, and an operator must act. For example, the peer refuses it, or has a different trail of
      /// this name.
      case failed
      /// The peer lagged more than the conf allows, so that no segments are kept for it. Its tables need a refresh.
      case givenUp = "given_up"
    }

    package var trail: String
    /// The name of the peer, from its certificate or the conf.
    package var peer: String
    package var way: Direction
    package var state: State
    /// The name of the pump; empty if the peer connects.
    package var worker = ""
    /// The position up to which the receiving node has the trail durably, as `SEGMENT:OFFSET`.
    package var durable = ""
    /// The position up to which the receiving node has applied the trail; empty if unknown.
    package var applied = ""
    /// The bytes of the trail that the receiving node does not have yet; nil if unknown.
    package var behindBytes: UInt64?
    /// The age in ms of the oldest bytes of the trail that the receiving node does not have durably. 0 if it has all
    /// bytes; nil if unknown.
    package var durableLagMilliseconds: Double?
    package var appliedLagMilliseconds: Double?
    /// The bytes transferred since the daemon was started.
    package var bytes: UInt64 = 0
    package var bytesPerSecond: Double = 0
    /// The time of the last contact with the peer, in µs since 1970 UTC; nil for never.
    package var seenAt: Int64?
    package var problem: Problem?

    package init(_ trail: String, _ peer: String, _ way: Direction, _ state: State) {
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
      let way = object.text("way").flatMap(Direction.init), let state = object.text("state").flatMap(State.init)
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
