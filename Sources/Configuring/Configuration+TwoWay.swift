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
        return pumps.contains { $0.way == .push && $0.trails.includes(own) }
          || peers.contains { $0.pull.includes(own) }
      }
      let origin = captures.first { trail(of: $0) == apply.trail }?.database
      return applies.contains { $0.trail == own && $0.database == origin }
    }
  }
}
