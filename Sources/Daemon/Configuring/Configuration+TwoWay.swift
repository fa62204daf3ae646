import Changes

extension Configuration {
  /// Returns the capture that reads the target of a two-way apply; nil for a one-way apply.
  package func captureBehind(_ apply: Apply) -> Capture? {
    captures.first { capture in
      guard capture.database == apply.database, let source = TrailName(apply.trail) else { return false }
      let own = trail(of: capture)
      guard own != apply.trail else { return false }
      guard source.origin == node.name else {
        // If peers receive this node's trail, one of them may apply it at the origin of the apply's trail.
        // `applied = "include"` says that none does.
        if capture.applied == .include { return false }
        return pumps.contains { $0.way == .push && $0.trails.includes(own) }
          || peers.contains { $0.pull.includes(own) }
      }
      let origin = captures.first { trail(of: $0) == apply.trail }?.database
      return applies.contains { $0.trail == own && $0.database == origin }
    }
  }

  /// Returns whether a two-way apply writes to the database that a capture reads.
  package func goesBothWays(_ capture: Capture) -> Bool {
    applies.contains { captureBehind($0)?.name.hasSameBytes(as: capture.name) == true }
  }

  /// Returns the command, in quotes, that copies the rows of the other end into the database of a capture. Nil if only
  /// one-way applies write there.
  package func copyBack(into capture: Capture) -> String? {
    applies.first { captureBehind($0)?.name.hasSameBytes(as: capture.name) == true }.map { "'cairn copy \($0.name)'" }
  }

  /// Returns the command, in quotes, that copies the rows of a two-way apply's target into its source. Nil for a one-way
  /// apply.
  package func copyBack(of apply: Apply) -> String? {
    guard let behind = captureBehind(apply) else { return nil }
    let own = trail(of: behind)
    guard let source = captures.first(where: { trail(of: $0) == apply.trail })?.database else {
      return "'cairn copy' at node \(TrailName(apply.trail)?.origin ?? "") for its apply of trail \(own)"
    }
    return applies.first { $0.trail == own && $0.database == source }.map { "'cairn copy \($0.name)'" }
  }

  // MARK: Audits

  /// Returns the rate of an apply's audit in bytes per second; nil: no audit. If the conf sets no rate, a two-way apply
  /// has no audit. A one-way apply then has the default rate, unless other settings let source and target differ.
  package func auditRate(_ apply: Apply, goesBothWays: Bool) -> Int? {
    if let given = apply.auditBytesPerSecond { return given > 0 ? given : nil }
    let isToBeEqual = !goesBothWays && !apply.mayDiffer && lineOnLacking(apply) == nil
    return isToBeEqual ? Configuration.auditBytesUsual : nil
  }

  /// Returns whether this node has applies of a capture's trail, but none of them has an audit.
  package func isUnaudited(_ capture: Capture) -> Bool {
    let applies = applies.filter { $0.trail == trail(of: capture) }
    return !applies.isEmpty && applies.allSatisfy { auditRate($0, goesBothWays: captureBehind($0) != nil) == nil }
  }

  // MARK: Relayed rows

  /// The settings of an apply for chains, in which a capture also reads rows that an apply has written.
  package struct RelayPlan: Equatable, Sendable {
    /// Whether a capture of the target may read the rows that this apply writes. True if the rows would not return to
    /// their origin.
    package var relays: Bool
    /// The trail of the capture that reads the target; nil if there is none. The apply skips rows that come from this
    /// trail.
    package var ownTrail: TrailName?
  }

  package func relayPlan(_ apply: Apply) -> RelayPlan {
    let own = captures.first { $0.database == apply.database }.flatMap { TrailName(trail(of: $0)) }
    return RelayPlan(relays: !leadsBack(apply), ownTrail: own)
  }

  /// Returns whether rows that an apply writes would return to their origin, through captures and applies of this node.
  package func leadsBack(_ apply: Apply) -> Bool {
    if captureBehind(apply) != nil { return true }
    guard let origin = captures.first(where: { trail(of: $0) == apply.trail })?.database else { return false }
    var reached: Set<String> = [apply.database]
    var new = [apply.database]
    while let database = new.popLast() {
      let trails = Set(captures.filter { $0.database == database }.map(trail))
      for next in applies where trails.contains(next.trail) && reached.insert(next.database).inserted {
        new.append(next.database)
      }
    }
    return reached.contains(origin)
  }

  /// Returns whether the trail of a capture includes the rows that an apply has written to the captured database.
  package func handsOn(_ capture: Capture) -> Bool {
    capture.applied.map { $0 == .include }
      ?? !applies.contains { $0.database == capture.database && leadsBack($0) }
  }

  /// Returns a line for the operator on whether the rows that applies write to a source go into its capture's trail.
  /// Nil if there is nothing to report.
  ///
  ///     rows that [apply.pos] writes to database erp go into trail hq.erp
  package func lineOnApplied(_ capture: Capture) -> String? {
    let into = applies.filter { $0.database == capture.database }
    let others = into.filter { captureBehind($0) == nil }
    guard !others.isEmpty else {
      let assumed = into.filter { TrailName($0.trail).map { $0.origin != node.name } ?? false }
      guard !assumed.isEmpty, capture.applied != .skip else { return nil }
      return """
        \(rows(of: assumed, capture)) do not go into trail \(trail(of: capture)): peers may get that trail, so both ends \
        are taken to write; if the peers do not apply it there, set applied = "include" in [capture.\(capture.name)]
        """
    }
    let who = rows(of: others, capture)
    if handsOn(capture) { return "\(who) go into trail \(trail(of: capture))" }
    let why = capture.applied == .skip ? "applied = \"skip\"" : "a way leads back"
    return "\(who) do not go into trail \(trail(of: capture)) (\(why))"
  }

  private func rows(of applies: [Apply], _ capture: Capture) -> String {
    let names = applies.map { "[apply.\($0.name)]" }.joined(separator: ", ")
    return "rows that \(names) \(applies.count == 1 ? "writes" : "write") to database \(capture.database)"
  }

  /// Returns a line for the operator about rows that other applies write to the source, but that never reach this
  /// apply's target. Nil if there are none.
  package func lineOnLacking(_ apply: Apply) -> String? {
    guard let capture = captures.first(where: { trail(of: $0) == apply.trail }), !handsOn(capture) else { return nil }
    let others = applies.filter { $0.database == capture.database && captureBehind($0) == nil }
    guard let other = others.first else { return nil }
    return """
      database \(apply.database) lacks what [apply.\(other.name)] writes to database \(capture.database) (trail \
      \(other.trail)): trail \(apply.trail) does not have it; see 'applied' of [capture.\(capture.name)]
      """
  }
}
