import Changes
import SystemKit

/// The workers that an operator has paused with `cairn pause`, and when each pause ends. Times are µs since 1970 UTC.
///
/// ```swift
/// var pauses = WorkerPauses()
/// pauses.pause(WorkerName(.apply, "pos"), until: 60_000_000)
/// pauses.takeEnded(now: 60_000_000)   // [apply.pos]
/// ```
package struct WorkerPauses: Equatable, Sendable {
  /// One pause. It ends at `until`, or with `cairn resume` if `until` is nil.
  private struct Pause: Equatable, Sendable { var until: Int64? }

  private static let bytesMax = 1 << 20
  private var pauses: [WorkerName: Pause] = [:]

  package init() {}

  package var names: [WorkerName] { pauses.keys.sorted() }

  package func isPaused(_ name: WorkerName) -> Bool { pauses[name] != nil }

  /// Returns when the pause of a worker ends; nil if it has no end, or if the worker is not paused.
  package func end(of name: WorkerName) -> Int64? { pauses[name]?.until }

  /// The state of a paused worker in words; nil if the worker is not paused.
  package func detail(of name: WorkerName) -> String? {
    guard let pause = pauses[name] else { return nil }
    let end = pause.until.map { " until \(UTCTime($0).description.prefix(19))Z" } ?? ""
    return "paused by the operator\(end): 'cairn resume \(name)' ends the pause"
  }

  /// Pauses a worker, also if it is paused already.
  package mutating func pause(_ name: WorkerName, until: Int64?) { pauses[name] = Pause(until: until) }

  /// Ends a pause. Returns false if the worker is not paused.
  package mutating func resume(_ name: WorkerName) -> Bool { pauses.removeValue(forKey: name) != nil }

  /// Removes the pauses that have ended by the time `now`, and returns their workers.
  package mutating func takeEnded(now: Int64) -> [WorkerName] {
    let ended = pauses.filter { $0.value.until.map { $0 <= now } ?? false }.keys.sorted()
    for name in ended { pauses[name] = nil }
    return ended
  }

  // MARK: The file

  /// One line of JSON for each pause.
  var text: String {
    names.map { name in
      JSONObject([
        ("worker", .text(name.description)),
        ("until", end(of: name).map { .text(UTCTime($0).description) } ?? .null),
      ]).line + "\n"
    }.joined()
  }

  /// Parses the lines of a file; nil for any other text.
  init?(text: String) {
    for line in text.split(at: "\n") {
      guard case .object(let object)? = try? JSONReader.read(Array(line.utf8)),
        let name = object.text("worker").flatMap({ WorkerName($0) })
      else { return nil }
      let end = object.text("until")
      let until = end.flatMap { TimeText.parse($0, now: 0, zone: LocalTime()) }
      guard (end == nil) == (until == nil) else { return nil }
      pause(name, until: until)
    }
  }

  /// Returns the path of the file in a state folder.
  package static func path(state: String) -> String { "\(state)/pauses" }

  /// Reads the pauses of a node. Without a file there are none.
  ///
  /// - Throws: `state-foreign` if the file cannot be read: a worker that an operator paused must not start.
  package init(state: String) throws {
    let path = Self.path(state: state)
    do throws(FileError) {
      if let pauses = Self(text: try File.text(path, bytesMax: Self.bytesMax)) {
        self = pauses
        return
      }
    } catch {
      if error.isMissing {
        self.init()
        return
      }
    }
    throw CairnError(
      .stateForeign, "the list of paused workers \(path) cannot be read",
      hint: "remove the file, start the daemon, and pause the workers again", remedy: .badInput)
  }

  /// Writes the pauses durably.
  package func save(state: String) throws {
    let path = Self.path(state: state)
    do throws(FileError) { try File.replace(path, text: text, permissions: 0o640) } catch {
      throw error.asCairnError(doing: "write the list of paused workers")
    }
  }
}
