import Applying
import Changes
import SystemKit

/// The operator's decisions about rows at which one apply has stopped. They are stored in a file of the state folder,
/// so that they survive a crash.
///
///     let file = RowDecisionFile(state: state, apply: "shop")
///     try file.add(decision, applied: 6)
///     options.refused.decisions = try file.decisions(of: trail)
package struct RowDecisionFile {
  private let folder: String
  private let path: String

  package init(state: String, apply: String) {
    folder = state + "/applies"
    path = "\(folder)/\(apply).decisions"
  }

  /// Returns the decisions about rows of a trail. Ignores those about an earlier trail of the same name.
  package func decisions(of trail: TrailID) throws -> [RowDecision] {
    guard Folder.exists(path) else { return [] }
    let text: String
    do throws(FileError) { text = try File.text(path) } catch { throw error.asCairnError(doing: "read decisions") }
    return text.split(at: "\n").compactMap(Self.decision).filter { $0.trail == trail }
  }

  /// Stores a decision until apply comes to its row. An earlier decision about the row is replaced.
  ///
  /// - Parameter applied: The last transaction that the target is known to have. Decisions up to it are deleted. Other
  ///   ones stay: apply rolls back several transactions when a row stops it.
  package func add(_ decision: RowDecision, applied: UInt64) throws {
    let known = try decisions(of: decision.trail)
    let kept = known.filter { $0.transaction > applied && $0.position != decision.position }
    let text = (kept + [decision]).map { Self.line($0) + "\n" }.joined()
    do {
      try Folder.create(folder)
      try Array(text.utf8).withUnsafeBytes { try File.replace(path, with: $0) }
    } catch let error as FileError { throw error.asCairnError(doing: "write decisions") }
  }

  private static func line(_ decision: RowDecision) -> String {
    "\(decision.verdict.rawValue) \(decision.trail) \(decision.position) \(decision.transaction) \(decision.by)"
  }

  private static func decision(_ line: String) -> RowDecision? {
    let words = line.split(at: " ", maxSplits: 4)
    guard words.count == 5, let verdict = RowDecision.Verdict(rawValue: words[0]),
      let trail = TrailID(hex: words[1]), let position = Position(words[2]), let transaction = UInt64(words[3])
    else { return nil }
    return RowDecision(verdict, of: trail, at: position, transaction: transaction, by: words[4])
  }
}
