import Changes

/// The log messages about problems with peers that connect, at a bounded rate for each peer. A peer that causes more
/// messages gets the later ones when its rate allows them, as they are then.
///
///     var notes = PeerNotes()
///     notes.note(contacts.problems(now: now), now: now)
struct PeerNotes {
  private struct Known {
    var notes = TransferNotes()
    var looks = Allowance(burst: 5, refill: 60_000_000)
  }

  /// The most messages about one peer at a time. A further one has the number of those that are left out.
  static let linesMax = 10

  private var known: [NameKey: Known] = [:]

  /// Returns the messages for problems that began, changed or ended since those of their peer were last returned.
  ///
  /// - Parameter problems: The present problems by peer, then by trail.
  /// - Parameter now: The time in µs.
  mutating func note(_ problems: [NameKey: [String: CairnError]], now: Int64) -> [TransferNotes.Note] {
    var found: [TransferNotes.Note] = []
    for peer in Set(known.keys).union(problems.keys).sorted() {
      var entry = known[peer] ?? Known()
      let news = entry.notes.note(problems[peer] ?? [:])
      guard !news.isEmpty, entry.looks.take(now: now) else { continue }
      known[peer] = entry
      found += news.prefix(Self.linesMax)
      guard news.count > Self.linesMax else { continue }
      let rest = (news.count - Self.linesMax).counted("more message")
      found.append(.init(text: "\(rest) about trails of peer '\(peer)' left out; see 'cairn status'"))
    }
    return found
  }
}
