import Applying
import Changes
import ControlAPI

/// The row at which an apply has stopped, and whether the operator may decide it with `cairn skip` or
/// `cairn take-source`. Pure.
///
///     try DecidableRow(worker, goesBothWays: false).row(.skip, at: position)
struct DecidableRow {
  let worker: NodeStatus.Worker
  let goesBothWays: Bool

  init(_ worker: NodeStatus.Worker, goesBothWays: Bool) {
    (self.worker, self.goesBothWays) = (worker, goesBothWays)
  }

  /// Returns the row that the decision is about.
  ///
  /// - Parameter at: The place in the trail at which the operator saw the apply stop.
  /// - Throws: `usage` if the apply is not stopped at this row, or if the verdict does not fit its error;
  ///   `unsupported` if the apply is part of two-way replication.
  func row(_ verdict: RowDecision.Verdict, at: Position) throws(CairnError) -> StoppedRow {
    let name = worker.name
    if goesBothWays {
      throw CairnError(
        .unsupported,
        "\(name) is part of two-way replication: a row that only this node leaves out or takes would differ between the nodes",
        hint:
          "write the wanted row at one of the nodes, or choose another 'conflict' rule, such as \"ask\", and run 'cairn reload'",
        remedy: .badInput)
    }
    guard worker.state == .failed, let problem = worker.problem, !problem.isPassed else {
      throw Self.notStopped(name, "it is \(worker.state.rawValue)")
    }
    guard let row = problem.row else {
      throw Self.notStopped(name, "it has failed with [\(problem.code)] \(problem.message)")
    }
    guard row.position == at else {
      throw CairnError(
        .usage, "\(name) is stopped at \(row.position), table \(row.table), row \(row.key), and not at \(at)",
        hint: "look at this row, then run the command again with --at \(row.position)", remedy: .badInput)
    }
    let fits: [ErrorCode] = [.rowMissing, .rowDiffers, .rowExists]
    if verdict == .takeSource, row.isCopied || !fits.contains(where: { $0.rawValue == problem.code }) {
      throw CairnError(
        .usage, "\(name) cannot take the source's row: the target refuses it with [\(problem.code)] \(problem.message)",
        hint:
          "make the target take it and run 'cairn start \(name)', or leave it out: 'cairn skip \(name.name) --at \(at)'",
        remedy: .badInput)
    }
    return row
  }

  static func notStopped(_ name: WorkerName, _ why: String) -> CairnError {
    CairnError(
      .usage, "\(name) is not stopped at a row\(why.isEmpty ? "" : ": \(why)")",
      hint: "see 'cairn status'; transactions in quarantine are decided with 'cairn quarantine'", remedy: .badInput)
  }
}

extension CairnError {
  /// Returns the error with the commands that decide its row added to the hint. Errors that are not about a row that an
  /// operator may decide stay as they are.
  func decidable(by apply: String, goesBothWays: Bool) -> CairnError {
    guard !goesBothWays, let row = StoppedRow(self) else { return self }
    let skip = "'cairn skip \(apply) --at \(row.position)' leaves this change out"
    let take =
      row.isCopied || [.constraintFailed, .valueMisfit].contains(code)
      ? "" : ", 'cairn take-source \(apply) --at \(row.position)' writes the source's row over the target's"
    return CairnError(
      code, message, hint: "\(hint); or decide this row: \(skip)\(take)", remedy: remedy, context: context)
  }
}
