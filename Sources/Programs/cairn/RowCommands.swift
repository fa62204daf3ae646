import Changes
import ControlAPI

/// `cairn skip`: leaves out the change of the row at which an apply has stopped.
struct SkipCommand: Command {
  static let name = "skip"
  static let summary = "leave out the change of one row at which an apply has stopped"
  static let operands = "APPLY"
  static let options = RowOrder.options
  static let details = """
    For an apply that one row has stopped, as with row-differs, row-missing, row-exists, constraint-failed or
    value-misfit. The apply starts again and leaves out this change, and no other one. The target's row stays as it is.
    The conflict log keeps the change with both rows, the time and the user: 'cairn conflicts list --database DATABASE'.

    POSITION is in the error, and its hint has the whole command. The command is refused if the apply is stopped at
    another row by now. Without --at, the command prints the row at which the apply is stopped, and takes that one.

    The ends differ in this row until the source writes it again, and later changes of the row may stop the apply too.
    See the difference with 'cairn compare APPLY'; 'cairn compare APPLY --repair' ends it. Two-way, the command is
    refused, as nodes would differ. With on_error = "quarantine", use 'cairn quarantine discard'.

    example: cairn skip erp --at 00000001:00000122
    """
  static func run(_ arguments: Arguments) throws -> Int32 { try RowOrder.run(arguments, .skip) }
}

/// `cairn take-source`: writes the source's row over the row at which an apply has stopped.
struct TakeSourceCommand: Command {
  static let name = "take-source"
  static let summary = "write the source's row over the one row at which an apply has stopped"
  static let operands = "APPLY"
  static let options = RowOrder.options
  static let details = """
    For an apply that one row has stopped with row-differs, row-missing or row-exists: another program has written to
    the target. The apply starts again, and makes the target's row as the source has it after this change. It deletes
    other rows of the target that have one of the row's unique values. All later rows are applied as before.
    The conflict log keeps the replaced rows, the time and the user: 'cairn conflicts list --database DATABASE'.

    POSITION is in the error, and its hint has the whole command. The command is refused if the apply is stopped at
    another row by now. Without --at, the command prints the row at which the apply is stopped, and takes that one.

    The apply stops again if the trail does not have the whole row, or if the table has no key. Then copy the table.
    A row that the target itself refuses needs 'cairn skip'. Two-way, use 'cairn conflicts' and the rules instead.

    example: cairn take-source erp --at 00000001:00000122
    """
  static func run(_ arguments: Arguments) throws -> Int32 { try RowOrder.run(arguments, .takeSource) }
}

private enum RowOrder {
  static let options =
    [Option("--at", "POSITION", "the place in the trail at which the apply is stopped, as its error names it")]
    + DaemonPeer.options

  static func run(_ arguments: Arguments, _ command: ControlRequest.Command) throws -> Int32 {
    let name = try arguments.operands(1...1)[0]
    let at = try place(arguments, name)
    let answer = try DaemonPeer.ask(arguments, ControlRequest(command, name, at: at))
    guard !arguments.has("--json") else { return 0 }
    let apply = answer.text("apply") ?? name
    let row = answer.object("row").flatMap(StoppedRow.init)
    let subject = row.map { "table \($0.table), row \($0.key), at \($0.position)" } ?? "the row at \(at)"
    let what =
      command == .skip
      ? "leaves out the change of \(subject); the ends may differ there: see 'cairn compare \(apply)'"
      : "takes the source's row: \(subject)"
    Terminal.print("apply.\(apply) \(what)")
    return 0
  }

  /// Returns the place of `--at`; without the option, the place at which the apply is stopped now.
  private static func place(_ arguments: Arguments, _ name: String) throws -> Position {
    if let text = arguments.value("--at") {
      guard let at = Position(text) else {
        throw arguments.usage(
          "--at: '\(text)' is not a position", "write it as in the error, such as 00000001:00000122;")
      }
      return at
    }
    let status = try DaemonPeer.address(arguments).ask(ControlRequest(.status))
    let short = name.hasPrefix("apply.") ? String(name.dropFirst("apply.".count)) : name
    let workers = status.objects("workers").compactMap { NodeStatus.Worker($0) }
    let worker = workers.first { $0.name == WorkerName(.apply, short) }
    guard let row = worker?.problem?.row, worker?.state == .failed else {
      // The daemon knows why there is none.
      return .start
    }
    return row.position
  }
}
