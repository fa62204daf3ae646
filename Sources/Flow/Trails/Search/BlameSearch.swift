import Changes

extension Blame {
  /// Returns the last writers of the columns of a row, from one trail.
  ///
  /// - Parameter schema: The newest schema of the table in the trail.
  /// - Parameter key: The key of the row, as ``RowFilter/key(in:)`` gives it.
  package static func read(folder: String, schema: TableSchema, key: RowKey) throws -> Blame {
    let trail = try Trail.info(folder: folder).name
    var blame = Blame(schema, key)
    var last: BlameEvent?
    while true {
      var bounds = TrailSearch.Bounds()
      // The transaction of the last event is included, because it may have older events.
      bounds.to = last.map { Position(segment: $0.begin.segment, offset: $0.begin.offset + 1) }
      let filter = RowFilter(table: blame.table, key: blame.key, count: blame.keyCount)
      var events: [BlameEvent] = []
      var step = Step.more
      try TrailSearch(folder: folder, filter: filter, bounds: bounds).run(newestFirst: true) { hit in
        if let last, hit.position >= last.position { return }
        if let event = try BlameEvent(hit, trail: trail) { events.append(event) }
      } done: {
        defer { events = [] }
        for event in events.reversed() {
          step = blame.note(event)
          if step != .more {
            last = event
            return .end
          }
        }
        return .more
      }
      guard step == .follow else { return blame }
    }
  }
}
