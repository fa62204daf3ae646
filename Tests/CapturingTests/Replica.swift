import Applying
import Capturing
import Changes
import Foundation
import SQLiteKit
import SystemKit
import Synchronization
import TestServers
import Trails

/// A source, a trail and a target in a temporary folder; capture and apply run in this process, one after the other.
final class Replica {
  let folder: TempFolder
  let source: String
  let target: String
  var options = SQLiteCapture.Options()
  var applyOptions = SQLiteApply.Options()
  var clock = Clock.system
  /// The folder of the trail.
  var trail: String
  private let said = Notices()
  private var writer: TrailWriter?
  private var capture: SQLiteCapture?
  private var apply: SQLiteApply?
  static let name = TrailName(origin: "local", name: "source")
  var name = Replica.name
  var trailOptions = TrailOptions()

  init(_ folder: TempFolder, source: String = "source.db", target: String = "target.db", trail: String = "trail") {
    self.folder = folder
    self.source = folder(source)
    self.target = folder(target)
    self.trail = folder(trail)
    options.place = folder("state")
  }

  var notices: [String] { said.all }
  private(set) var progress: CaptureProgress?

  /// Takes everything that was committed into the trail.
  func take() throws {
    do {
      try open()
      try capture?.run(stop: StopSignal(), untilCaughtUp: true)
    } catch {
      close()
      throw error
    }
  }

  /// As ``take()``, until `stop` is set.
  func take(until stop: StopSignal) throws {
    try open()
    try capture?.run(stop: stop, untilCaughtUp: true)
  }

  /// Takes what comes, until `stop` is set.
  func follow(until stop: StopSignal) throws {
    try open()
    try capture?.run(stop: stop, untilCaughtUp: false)
  }

  private func open() throws {
    guard capture == nil else { return }
    let clock = clock
    let writer = try TrailWriter.open(
      folder: trail, name: name, options: trailOptions, now: Clock.system.microseconds)
    let said = said
    let progress = CaptureProgress(notice: { said.add($0.text) })
    capture = try SQLiteCapture(path: source, trail: writer, options: options, clock: clock, progress: progress)
    (self.writer, self.progress) = (writer, progress)
  }

  /// Applies everything that is in the trail.
  func replay() throws {
    let apply = try apply ?? SQLiteApply(path: target, trail: trail, name: name, options: applyOptions)
    self.apply = apply
    let drain = StopSignal()
    drain.set()
    do { try apply.run(stop: StopSignal(), drain: drain) } catch {
      self.apply = nil
      throw error
    }
  }

  /// Lets go of both databases and of the trail, as the end of the process does.
  func close() {
    capture = nil
    try? writer?.close()
    writer = nil
    apply = nil
  }

  func takeAndReplay() throws {
    try take()
    try replay()
  }

  /// Returns the differences between source and target.
  func differences() throws -> [String] { try Contents(source).differences(from: Contents(target)) }
}

final class Notices: Sendable {
  private let texts = Mutex<[String]>([])
  var all: [String] { texts.withLock { $0 } }
  func add(_ text: String) { texts.withLock { $0.append(text) } }
}

/// The journal of a replica's source, as another process has it.
func hooks(_ replica: Replica) throws -> Journal { Journal(try Database(path: replica.source)) }

/// The records of a replica's trail, without those that hold pointers.
func records(_ replica: Replica) throws -> [Record] {
  let reader = try TrailReader.open(folder: replica.trail, at: nil)
  var found: [Record] = []
  while let record = try reader.next() {
    switch record {
    case .begin, .commit, .ddl, .refresh: found.append(record)
    default: break
    }
  }
  return found
}

/// The code of a thrown error as a person sees it; nil when none is thrown, `bug` when it has no code.
func code(of body: () throws -> Void) -> ErrorCode? {
  do {
    try body()
    return nil
  } catch let error as CairnError {
    return error.code
  } catch let error as SQLiteError {
    return error.asCairnError.code
  } catch { return .bug }
}
