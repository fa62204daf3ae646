import Applying
import Capturing
import Changes
import Conflicts
import Endpoints
import Mapping
import Synchronization
import SystemKit
import Trails

/// The opposite direction of a two-way replication: a capture of the target, and an apply to the source.
package final class Direction: Sendable {
  package let source: DatabaseURL
  package let target: DatabaseURL
  package let trail: TrailName
  let folder: String
  package let captureProgress: CaptureProgress
  package let applyProgress = ApplyProgress()
  /// The signal that this direction's capture has begun to record all changes, or has ended.
  let ready = StopSignal()

  init(
    from source: DatabaseURL, to target: DatabaseURL, trail: TrailName, state: String,
    notice: @escaping @Sendable (CaptureProgress.Notice) -> Void
  ) {
    (self.source, self.target, self.trail, folder) = (source, target, trail, "\(state)/\(trail)")
    captureProgress = CaptureProgress(notice: notice)
  }
}

extension TwoWay {
  /// Creates the state that all two-way apply workers of one database share.
  ///
  /// - Parameter own: The trail of this database's own capture.
  /// - Parameter applied: The trails that are applied to this database.
  /// - Parameter link: The link by which the apply workers cooperate with the capture.
  package convenience init(
    own: (name: TrailName, folder: String), applied: [(name: TrailName, folder: String, tables: AdmittedTables)],
    captured: TablePatterns = TablePatterns(), copiesRows: Bool = false, link: CaptureLink,
    limits: Limits = Limits(), after before: TwoWay? = nil, rules: @escaping RuleBook
  ) {
    let local: LocalCommits
    if let watch = link.watch {
      let capture = CaptureBegun(own.folder)
      local = .stream(
        CaptureStream { stop, hurry in
          guard capture.isSeen else { return .nothing }
          guard hurry else { return try watch.catchUp(stop).map { .passed(.init($0)) } }
          let mark = try watch.mark()
          guard watch.wait(mark, stop, milliseconds: 1000) != nil else { return nil }
          return .passed(.init(mark))
        })
    } else {
      local = .journal { database, position, body in
        guard try Journal(database).owner() != nil else { return true }
        return try UncapturedRows.read(database, behind: position, body)
      }
    }
    self.init(
      own: own, applied: applied, captured: captured, copiesRows: copiesRows, local: local, turns: link.turns,
      limits: limits, after: before, rules: rules)
  }
}

/// A check whether capture has begun its trail.
private final class CaptureBegun: Sendable {
  private let folder: String
  private let wasSeen = Atomic<Bool>(false)
  init(_ folder: String) { self.folder = folder }

  var isSeen: Bool {
    if wasSeen.load(ordering: .relaxed) { return true }
    guard Trail.exists(folder: folder), let info = try? Trail.info(folder: folder), info.lastTransaction > 0 else {
      return false
    }
    wasSeen.store(true, ordering: .relaxed)
    return true
  }
}

extension CaptureStream.Passed {
  fileprivate init(_ mark: LocalWatch.Mark) { self.init(moment: mark.moment, message: mark.transaction) }
}

extension CaptureLink {
  package init(_ database: DatabaseURL) {
    var watch: LocalWatch?
    if case .postgres(let uri) = database { watch = LocalWatch(uri: uri) }
    self.init(watch: watch)
  }
}
