import Changes
import Configuring
import ControlAPI
import Deploying
import Endpoints
import Replicating
import Trails

/// An order to a capture of this node to refresh tables: to send the tables' rows through the capture's trail again.
struct CopyOrder {
  let context: ServiceContext
  let supervisor: Supervisor

  enum Outcome {
    case tables([String])
    /// The capture, which had failed, is restarted and refreshes every table.
    case everything
  }

  /// Throws `source-went-back` if the capture has failed with this error: the capture's source does not match the end
  /// of the trail. A refresh is impossible then.
  func checkSource(of capture: Configuration.Capture) throws {
    guard failure(of: capture)?.code == ErrorCode.sourceWentBack.rawValue else { return }
    let trail = TrailName(origin: context.node, name: capture.name)
    throw CairnError(
      .sourceWentBack, "the source of trail \(trail) is not at the end of the trail, so the trail cannot carry a copy",
      hint: TrailHint.wentBack(context.folder(of: trail), copyBack: context.configuration.copyBack(into: capture)),
      remedy: .stop)
  }

  private func failure(of capture: Configuration.Capture) -> NodeStatus.Problem? {
    let name = WorkerName(.capture, capture.name)
    guard let worker = supervisor.workers().first(where: { $0.name == name && $0.state == .failed }) else { return nil }
    return worker.problem ?? NodeStatus.Problem(code: ErrorCode.bug.rawValue, message: "", hint: "", times: 1)
  }

  /// Makes the capture refresh tables. Returns the names of the tables, or `everything` if a failed capture was
  /// restarted.
  ///
  /// - Parameter tables: Patterns of the tables; empty for all captured tables.
  /// - Parameter hint: The hint of the error that is thrown if the capture has failed.
  /// - Parameter isStrict: Whether each pattern must match a table of the source.
  /// - Throws: The error of a failed capture, if `tables` is not empty; `table-missing` if a requested table is not
  ///   captured, or if no table matches.
  func carryOut(
    _ capture: Configuration.Capture, _ tables: [String], hint: String, isStrict: Bool = false
  ) throws -> Outcome {
    let trail = TrailName(origin: context.node, name: capture.name)
    let folder = context.folder(of: trail)
    if let failure = failure(of: capture) {
      let name = WorkerName(.capture, capture.name)
      guard tables.isEmpty else {
        throw CairnError(
          ErrorCode(rawValue: failure.code) ?? .bug, "\(name) has failed, so it cannot copy tables: \(failure.message)",
          hint: hint, remedy: .badInput)
      }
      // If the slot is lost, the restarted capture begins with a new one.
      try CopyRequest.askCapture(folder)
      try supervisor.order(.restart, name.description)
      return .everything
    }
    guard let database = context.configuration.database(capture.database) else { return .tables([]) }
    let patterns = TablePatterns(capture.tables)
    let wanted = tables.isEmpty ? patterns : TablePatterns(tables)
    let source = try SourceDatabase(database.location().canonical)
    let meant = try source.tables(wanted).filter { $0.refusal == nil }.map(\.name)
    let captured = Set(try source.tables(patterns).map(\.name.nameKey))
    var stranger = meant.first { !captured.contains($0) } ?? (meant.isEmpty ? tables.first ?? "*" : nil)
    if isStrict, stranger == nil {
      stranger = try tables.first { try !$0.hasPrefix("!") && source.tables(TablePatterns([$0])).isEmpty }
    }
    if let stranger {
      let near = stranger.nearest(in: captured.sorted().map(\.text)).map { "did you mean '\($0)'? " } ?? ""
      throw CairnError(
        .tableMissing, "table '\(stranger)' is not captured from \(database.name)",
        hint: "\(near)the capture includes \(capture.tables.joined(separator: ", "))", remedy: .badInput)
    }
    return .tables(try source.askForCopies(of: wanted, trail: try Trail.info(folder: folder).id))
  }
}
