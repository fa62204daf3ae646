import Changes
import NetKit
import SystemKit
import Trails

/// Exchanges requests for a refresh, and questions about rows, with the node that a pump dials, on its own thread. The
/// transfers report the errors of the connection.
final class RefreshRequestPoller {
  private static let lookMilliseconds: Int32 = 500
  private static let soonMilliseconds: Int32 = 20
  private static let againMilliseconds: Int32 = 10_000
  /// The time for which questions are answered before requests for a refresh are fetched again, in milliseconds.
  private static let turnMilliseconds: Int64 = 5_000

  private let plan: PumpPlan
  private let hooks: PumpHooks
  private let trails: () -> [TrailName]
  private var asked: [TrailName: [CopyRequest]] = [:]
  private var known: String?
  /// The monotonic time, in milliseconds, at which the loop last forwarded a question. For 2 s after that, the loop
  /// pauses for 20 ms instead of 500 ms.
  private var questionedAt: Int64 = 0

  /// Creates an object that exchanges requests and questions with the peer of a pump.
  ///
  /// - Parameter trails: Returns the trails whose transfers have reached the peer.
  init(_ plan: PumpPlan, _ hooks: PumpHooks, trails: @escaping () -> [TrailName]) {
    (self.plan, self.hooks, self.trails) = (plan, hooks, trails)
  }

  func run(until stop: StopSignal) {
    while !stop.isSet {
      do {
        let link = try PumpLink(plan, stop: stop, silenceSeconds: PumpLink.questionSeconds)
        repeat {
          guard !trails().isEmpty else { continue }
          if plan.direction == .push { try hear(link, stop) } else { try ask(link) }
        } while !stop.wait(milliseconds: pause)
      } catch {
        known = nil
        _ = stop.wait(milliseconds: Self.againMilliseconds)
      }
    }
  }

  private var pause: Int32 {
    Clock.monotonicMilliseconds - questionedAt < 2_000 ? Self.soonMilliseconds : Self.lookMilliseconds
  }

  // MARK: Trails are pushed

  private func hear(_ link: PumpLink, _ stop: StopSignal) throws {
    let told = try link.requests(known: known)
    let ours = Set(trails())
    hooks.questions.note(told.node, at: plan.url)
    // The peer may request copies only for trails that this node pushes to it.
    for (trail, requests) in told.requests where plan.trails.includes(trail) && ours.contains(trail) {
      _ = hooks.asked(plan.url, trail, requests)
    }
    known = told.mark
    guard told.hasQuestions else { return }
    let limit = Clock.monotonicMilliseconds + Self.turnMilliseconds
    while Clock.monotonicMilliseconds < limit, !stop.isSet, let question = try link.nextQuestion() {
      questionedAt = Clock.monotonicMilliseconds
      let sealed = OpenQuestions.sealed {
        // The peer may ask only about trails that this node pushes to it.
        guard plan.trails.includes(question.trail), trails().contains(question.trail) else {
          throw CairnError(
            .peerRefused, "trail \(question.trail) is not sent to node '\(told.node)'",
            hint: "add the trail to the pump of its node", remedy: .retry)
        }
        return try hooks.answer(plan.url, question.trail, question.bytes) { stop.isSet }
      }
      try link.answer(question, sealed)
    }
    // Without a known list, the peer answers the next request at once, and reports whether it has more questions.
    known = nil
  }

  // MARK: Trails are pulled

  private func ask(_ link: PumpLink) throws {
    for trail in trails() {
      let wanted = hooks.requests(trail)
      guard wanted != asked[trail] ?? [] else { continue }
      // If the peer has too many requests now, the transfer sends them again later.
      do { try link.ask(wanted, trail) } catch let error as CairnError where error.code == .busy {}
      asked[trail] = wanted
    }
    let ours = trails()
    guard let question = hooks.questions.take(for: plan.url, { trail, _ in ours.contains(trail) }) else { return }
    questionedAt = Clock.monotonicMilliseconds
    do { hooks.questions.answer(question.id, by: plan.url, try link.ask(question.bytes, question.trail)) } catch {
      // The asker gets the error. Unless the peer answered with it, the connection starts again.
      hooks.questions.answer(question.id, by: plan.url, OpenQuestions.sealed { throw Self.told(error) })
      guard error is CairnError, (error as? CairnError)?.code != .peerUnreachable else { throw error }
    }
  }

  /// Returns the error for the asking node: `unsupported` in place of an older peer's `trail-missing`.
  private static func told(_ error: any Error) -> any Error {
    guard let error = error as? CairnError, error.code == .trailMissing else { return error }
    return CairnError(
      .unsupported,
      "the node from which the trail comes answers no questions about rows: its version of Cairn is older",
      hint: "update it, or set audit = \"off\" in the apply", remedy: .retry)
  }
}
