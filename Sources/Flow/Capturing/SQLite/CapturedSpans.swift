import Changes

/// The journal rows during which each table of a source was captured.
///
///     spans.hasTable("item", after: 4, through: 9)   // true: it was captured at some of the rows 5 to 9
struct CapturedSpans {
  private struct Span {
    let since: Int64
    /// The latest end of this span and of those that begin earlier.
    let end: Int64
  }

  /// The spans of each table, in the order in which they begin.
  private var spans: [NameKey: [Span]] = [:]

  init(_ layouts: [CaptureInstance]) {
    for layout in layouts.sorted(by: { $0.since < $1.since }) {
      let end = layout.ended.map(abs) ?? .max
      let table = layout.schema.name.sqliteKey
      spans[table, default: []].append(Span(since: layout.since, end: max(end, spans[table]?.last?.end ?? .min)))
    }
  }

  /// Returns whether a table was captured at some journal row after `before`, and at or before `last`.
  func hasTable(_ name: String, after before: Int64, through last: Int64) -> Bool {
    guard let spans = spans[name.sqliteKey] else { return false }
    // The number of spans that begin at or before `last`.
    var (low, high) = (0, spans.count)
    while low < high {
      let middle = (low + high) / 2
      if spans[middle].since <= last { low = middle + 1 } else { high = middle }
    }
    return low > 0 && spans[low - 1].end > before
  }
}
