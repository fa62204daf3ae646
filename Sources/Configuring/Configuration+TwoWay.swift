import Changes

extension Configuration {
  /// The capture of the database to which an apply writes, where what is captured there goes back to where the apply's
  /// trail comes from: then both ends write, and conflicts are settled. Nil: the apply is one-way.
  package func captureBehind(_ apply: Apply) -> Capture? {
    captures.first { capture in
      guard capture.database == apply.database, let source = TrailName(apply.trail) else { return false }
      let own = trail(of: capture)
      guard own != apply.trail else { return false }
      guard source.origin == node.name else {
        // A trail of this node that peers have may go to the one that the apply's comes from: the conf says if it does not.
        if capture.applied == .include { return false }
        return pumps.contains { $0.way == .push && $0.trails.includes(own) }
          || peers.contains { $0.pull.includes(own) }
      }
      let origin = captures.first { trail(of: $0) == apply.trail }?.database
      return applies.contains { $0.trail == own && $0.database == origin }
    }
  }

  // MARK: Rows that go on

  /// How an apply takes part in chains of databases.
  package struct RelayPlan: Equatable, Sendable {
    /// Its rows may go on into the trail of its database: no way leads back to where they come from.
    package var relays: Bool
    /// The trail of its database, if the database is captured. The apply passes over rows that began there.
    package var ownTrail: TrailName?
  }

  package func relayPlan(_ apply: Apply) -> RelayPlan {
    let own = captures.first { $0.database == apply.database }.flatMap { TrailName(trail(of: $0)) }
    return RelayPlan(relays: !leadsBack(apply), ownTrail: own)
  }

  /// Whether rows that an apply writes would come back to where they come from, over any number of databases of this node.
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

  /// Whether rows that applies write to the database of a capture go into its trail.
  package func handsOn(_ capture: Capture) -> Bool {
    capture.applied.map { $0 == .include }
      ?? !applies.contains { $0.database == capture.database && leadsBack($0) }
  }

  /// One line that says what becomes of rows that one-way applies write to the database of a capture; nil if there is no
  /// such apply.
  ///
  ///     rows that [apply.pos] writes to database erp go on in trail hq.erp
  package func lineOnApplied(_ capture: Capture) -> String? {
    let others = applies.filter { $0.database == capture.database && captureBehind($0) == nil }
    guard !others.isEmpty else { return nil }
    let names = others.map { "[apply.\($0.name)]" }.joined(separator: ", ")
    let who = "rows that \(names) \(others.count == 1 ? "writes" : "write") to database \(capture.database)"
    if handsOn(capture) { return "\(who) go on in trail \(trail(of: capture))" }
    let why = capture.applied == .skip ? "applied = \"skip\"" : "a way leads back"
    return "\(who) do not go on in trail \(trail(of: capture)) (\(why))"
  }

  /// What an apply lacks, as the capture of its trail leaves out what others write to its source; nil: nothing.
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
