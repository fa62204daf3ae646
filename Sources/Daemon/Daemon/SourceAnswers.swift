import Changes
import Comparing
import Configuring
import ControlAPI
import Deploying
import Endpoints
import Pumping
import Replicating
import ServiceKit
import Synchronization
import SystemKit
import Trails

/// Answers questions of other nodes about the rows of this node's sources.
final class SourceAnswers: Sendable {
  // The repair requests, of up to 1,000 rows each, that a peer may make at once; then one more each second.
  private static let repairBurst = 200
  private static let repairMicroseconds: Int64 = 1_000_000
  // The whole-table copies that a peer may request at once; then one more each minute.
  private static let copyBurst = 3
  private static let copyMicroseconds: Int64 = 60_000_000

  private struct Source {
    let place: DatabaseURL
    let tables: [String]
    let answers: OriginAnswers
  }

  private let sources = Mutex<[String: Source]>([:])
  private let repairs = Mutex(Allowances(burst: SourceAnswers.repairBurst, refill: SourceAnswers.repairMicroseconds))
  private let copies = Mutex(Allowances(burst: SourceAnswers.copyBurst, refill: SourceAnswers.copyMicroseconds))

  func answer(
    _ question: [UInt8], about trail: TrailName, _ capture: Configuration.Capture, _ location: DatabaseURL,
    state: String, of asker: String, isOver: () -> Bool
  ) throws -> [UInt8] {
    let place = location.canonical
    let answers = sources.withLock { sources in
      if let known = sources[capture.name], known.place == place, known.tables == capture.tables {
        return known.answers
      }
      let fresh = OriginAnswers(
        place.comparePlace, patterns: TablePatterns(capture.tables), trail: TrailPlace(state: state, name: trail))
      sources[capture.name] = Source(place: place, tables: capture.tables, answers: fresh)
      return fresh
    }
    do {
      return try answers.answer(
        question, of: asker, mayRepair: { mayRepair(asker, trail, isWholeTable: $0) }, isOver: isOver)
    } catch { throw CairnError(enveloping: error, doing: "answer a question about rows") }
  }

  private func mayRepair(_ asker: String, _ trail: TrailName, isWholeTable: Bool) -> Bool {
    let now = Clock.monotonicMilliseconds * 1000
    let key = "\(asker) \(trail)"
    return isWholeTable ? copies.withLock { $0.take(key, now: now) } : repairs.withLock { $0.take(key, now: now) }
  }

  /// Closes the sources about which no node has asked a question for 30 s.
  func closeIdle() { for source in sources.withLock({ Array($0.values) }) { source.answers.closeIdle() } }
}

extension ServiceContext {
  /// Answers a question about the rows of a trail's source, if that source is at this node. Otherwise forwards the
  /// question to the node where the trail begins, and returns its answer.
  ///
  /// - Parameter asker: The apply of this node, or the peer, that asks.
  /// - Throws: `busy`, `peer-unreachable`, `trail-missing`, `usage`; the error in the answer of the trail's node.
  package func answer(
    _ question: [UInt8], about trail: TrailName, of asker: String, isOver: () -> Bool
  ) throws -> [UInt8] {
    guard trail.origin == node else { return try questions.ask(trail, question, of: asker, isOver: isOver) }
    guard let capture = capture(of: trail), let database = configuration.database(capture.database) else {
      throw CairnError(
        .trailMissing, "no capture of node \(node) writes trail \(trail)", hint: "see the conf of that node",
        remedy: .retry)
    }
    return try answers.answer(
      question, about: trail, capture, database.location(), state: statePath, of: asker, isOver: isOver)
  }

  /// Returns access to the source of another node's trail, for a compare at this node.
  func origin(of trail: TrailName, for asker: String, stop: StopSignal) -> OriginSource {
    OriginSource(stop: stop) { [self] question in
      try answer(question, about: trail, of: asker) { stop.isSet }
    }
  }
}
