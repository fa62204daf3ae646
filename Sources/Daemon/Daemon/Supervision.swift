import Changes

/// The state of one worker: when to start it, stop it, and start it again after an error. Times are ms of a monotonic
/// clock.
package struct Supervision: Equatable, Sendable {
  package enum State: Equatable, Sendable {
    case due(at: Int64)
    case running(since: Int64)
    /// The worker was ordered to end, and its thread still runs.
    case ending(since: Int64)
    case resting(Rest)
  }

  /// The reason why a worker does not run.
  package enum Rest: Equatable, Sendable {
    /// The operator stopped the worker with `cairn stop`.
    case ordered
    case failed
    /// The operator paused the worker with `cairn pause`. Only ``Supervision/resume(now:)`` starts it.
    case held
    /// The trails are over their disk limit.
    case paused
    /// The worker lagged too far, so that segments that it needs were deleted. It waits for a refresh of all tables.
    case expired
  }

  /// An error, the time of its last occurrence, and the number of times in a row that it occurred.
  package struct Failure: Equatable, Sendable {
    package var code: ErrorCode
    package var message: String
    package var hint: String
    package var at: Int64
    package var times = 1
    /// Whether the worker has run again for 15 s without an error after this failure.
    package var isPassed = false
    /// The row at which an apply has stopped; nil for any other failure.
    package var row: StoppedRow?
  }

  package private(set) var state: State
  // The state after the thread has ended; nil if the worker was not ordered to end.
  private var wish: State?
  /// The last failure of the worker. Nil if there was none, or if it is over and more than a day old.
  package private(set) var failure: Failure?
  static let pastMilliseconds: Int64 = 86_400_000
  package private(set) var failures = 0
  package private(set) var restarts = 0

  package init(startAt now: Int64) { state = .due(at: now) }

  package var isRunning: Bool { if case .running = state { true } else { false } }
  package var isAlive: Bool {
    switch state {
    case .running, .ending: true
    case .due, .resting: false
    }
  }
  package var rest: Rest? { if case .resting(let rest) = state { rest } else { nil } }

  // MARK: Events

  package func isDue(now: Int64) -> Bool { if case .due(let at) = state { now >= at } else { false } }

  package mutating func started(now: Int64) {
    state = .running(since: now)
    wish = nil
  }

  /// Handles the end of the worker's thread, with or without an error.
  ///
  /// - Parameter jitter: A random number from 0 to 1, evenly distributed.
  package mutating func ended(_ error: CairnError?, now: Int64, jitter: Double) {
    if case .running(let since) = state, now - since >= RestartPolicy.steadyMilliseconds { failures = 0 }
    let wasTold = if case .ending = state { true } else { false }
    if let error, !wasTold || !RestartPolicy.isOfEnding(error) { note(error, now) }
    if let wish {
      state = wish
      self.wish = nil
      return
    }
    guard let error else {
      // The worker ended without an order, so it is still wanted.
      state = .due(at: now + RestartPolicy.delay(failures: 1, jitter: jitter, of: .brief))
      return
    }
    failures += 1
    switch RestartPolicy.judge(error, failures: failures) {
    case .never: state = .resting(.failed)
    case .after(let pace):
      restarts += 1
      state = .due(at: now + RestartPolicy.delay(failures: failures, jitter: jitter, of: pace))
    }
  }

  /// Marks the worker's last failure as over, and forgets it if it is more than a day old.
  package mutating func isWell(now: Int64) {
    failure?.isPassed = true
    if let failure, now - failure.at > Self.pastMilliseconds { self.failure = nil }
  }

  package var hasPresentFailure: Bool { failure.map { !$0.isPassed } ?? false }

  private mutating func note(_ error: CairnError, _ now: Int64) {
    if let known = failure, !known.isPassed, known.code == error.code, known.message == error.message {
      failure?.times += 1
      failure?.at = now
    } else {
      failure = Failure(code: error.code, message: error.message, hint: error.hint, at: now)
      failure?.row = StoppedRow(error)
    }
  }

  // MARK: Orders

  /// Handles an order to start the worker, also after a stop or a failure. Always returns false: the caller has no
  /// thread to end.
  package mutating func start(now: Int64) -> Bool {
    if isHeld { return false }
    switch state {
    case .running: return false
    case .ending: wish = .due(at: now)
    case .due, .resting:
      failures = 0
      state = .due(at: now)
    }
    return false
  }

  /// Whether the operator has paused the worker, also while its thread ends.
  package var isHeld: Bool { rest == .held || wish == .resting(.held) }

  /// Ends a pause of ``Rest/held``.
  package mutating func resume(now: Int64) {
    if case .ending = state, wish == .resting(.held) { wish = .due(at: now) }
    if rest == .held { (state, failures) = (.due(at: now), 0) }
  }

  /// Stops the worker for a reason. Returns whether the caller has to end the worker's thread.
  package mutating func stop(_ rest: Rest, now: Int64) -> Bool {
    switch state {
    case .running:
      (state, wish) = (.ending(since: now), .resting(rest))
      return true
    // A pause of the operator outlasts all other reasons.
    case .ending: if !isHeld { wish = .resting(rest) }
    case .resting(.held): break
    // When disk space is free again, a worker that the operator stopped or that failed does not start.
    case .resting(.ordered) where rest == .paused, .resting(.failed) where rest == .paused: break
    case .due, .resting: state = .resting(rest)
    }
    return false
  }

  /// Schedules the next start of a worker that was stopped, has failed, is paused or has expired.
  ///
  /// - Parameter moment: Milliseconds of a monotonic clock.
  package mutating func tryAgain(at moment: Int64) {
    if case .resting = state, !isHeld { state = .due(at: moment) }
  }

  /// Schedules a restart at the time `now`. If it returns true, the caller must end the worker's running thread.
  package mutating func restart(now: Int64) -> Bool {
    if isHeld { return false }
    failures = 0
    switch state {
    case .running:
      (state, wish) = (.ending(since: now), .due(at: now))
      return true
    case .ending: wish = .due(at: now)
    case .due, .resting: state = .due(at: now)
    }
    return false
  }
}
