import Applying
import Capturing
import Changes
import Configuring

/// A check that prevents refreshes in both directions of a two-way replication at the same time.
struct OppositeCopy {
  /// The names of the captures that have tables to refresh now, and of the applies that receive or await refreshes now.
  struct Copying: Equatable {
    var captures: Set<String> = []
    var applies: Set<String> = []
  }

  private let apply: String
  // The capture of the database that the apply writes.
  private let capture: String
  // The apply in the opposite direction; nil if it runs at another node.
  private let back: String?

  /// Creates the check for a two-way apply; nil for a one-way apply.
  init?(_ apply: Configuration.Apply, _ conf: Configuration) {
    guard let behind = conf.captureBehind(apply) else { return nil }
    self.apply = apply.name
    capture = behind.name
    let source = conf.captures.first { conf.trail(of: $0) == apply.trail }?.database
    back = conf.applies.first { $0.trail == conf.trail(of: behind) && $0.database == source && source != nil }?.name
  }

  /// Returns the error `busy` if a refresh in the opposite direction is running; nil if this apply may begin one.
  func refusal(_ now: Copying) -> CairnError? {
    let worker: String
    if let back, now.applies.contains(back) {
      worker = "apply.\(back)"
    } else if now.captures.contains(capture) {
      worker = "capture.\(capture)"
    } else {
      return nil
    }
    return CairnError(
      .busy,
      "apply.\(apply) is two-way, and \(worker) is copying the rows of the other end: two copies at once may leave the ends different",
      hint: "wait until 'cairn status' shows no copy at \(worker), then run 'cairn copy \(apply)' again", remedy: .retry
    )
  }
}

extension Supervisor {
  /// The captures that still have tables to refresh, and the applies that still receive or await refreshes.
  var copying: OppositeCopy.Copying {
    let workers = state.withLock { state in state.entries.values.map(\.worker) }
    var copying = OppositeCopy.Copying()
    for worker in workers {
      if let capture = worker as? CaptureWorker {
        let now = capture.progress.snapshot
        if now.tablesToCopy > 0 || now.copying != nil { copying.captures.insert(capture.name.name) }
      } else if let apply = worker as? ApplyWorker {
        let now = apply.progress.snapshot
        if now.copying != nil || now.awaitsCopies { copying.applies.insert(apply.apply.name) }
      }
    }
    return copying
  }
}
