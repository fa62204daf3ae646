import Changes
import Endpoints
import Glibc
import PostgresKit
import SQLiteKit
import SystemKit
import Trust

/// The main program of `cairn`, which runs a command and exits with a status of sysexits.h.
@main
struct Cairn {
  static let version = Product.version

  static var commands: [any Command.Type] {
    [
      ReplicateCommand.self, CheckCommand.self, ConfigCommand.self, StatusCommand.self, TopCommand.self,
      StartCommand.self, StopCommand.self, RestartCommand.self, PauseCommand.self, ResumeCommand.self,
      ReloadCommand.self, CopyCommand.self, SkipCommand.self, TakeSourceCommand.self, CompareCommand.self,
      ConflictsCommand.self, QuarantineCommand.self, IdentityCommand.self, TrailCommand.self, BlameCommand.self,
      RestoreCommand.self, SnapshotCommand.self, UndoCommand.self, PeerCommand.self, UnhookCommand.self,
      RehookCommand.self, SetupCommand.self, DetachCommand.self, SupportBundleCommand.self, ExplainCommand.self,
    ]
  }

  static func main() {
    // If the reader of the output ends (`cairn trail show | head`), this program ends without a message, like other
    // filters.
    signal(SIGPIPE, SIG_DFL)
    Database.surviveHostileFiles()
    exit(run(Array(CommandLine.arguments.dropFirst())))
  }

  static func run(_ words: [String]) -> Int32 {
    let isJSON = words.contains("--json")
    do {
      guard let name = words.first, name != "--help", name != "-h" else {
        Terminal.page(help)
        return words.isEmpty ? ErrorCode.usage.exitStatus : 0
      }
      if name == "--version" || name == "version" {
        Terminal.print("cairn \(version) (trail format 1, SQLite \(Database.libraryVersion))")
        return 0
      }
      let command = try command(name)
      let rest = Array(words.dropFirst())
      if rest.contains("--help") || rest.contains("-h") {
        Terminal.page(command.help)
        return 0
      }
      for notice in Self.secrets(in: rest, of: command) { Terminal.note("cairn: warning: \(notice)") }
      return try command.run(Arguments(rest, of: command))
    } catch {
      let error = Self.envelope(error)
      Terminal.report(error, asJSON: isJSON)
      return error.code.exitStatus
    }
  }

  /// Returns a warning if the command line contains a secret, which other users of the machine can read.
  private static func secrets(in words: [String], of command: any Command.Type) -> [String] {
    var notices: [String] = []
    if words.contains(where: URLPassword.isIn) {
      notices.append(
        "every user of this machine can read the password in this command (ps); write it into ~/.pgpass, or use PGPASSFILE"
      )
    }
    if command == PeerCommand.self, words.first == "join", words.dropFirst().contains(where: { JoinLine($0) != nil }) {
      notices.append(
        "every user of this machine can read the token in this command (ps); run 'cairn peer join -' and paste the line"
      )
    }
    return notices
  }

  /// Returns the command with this name.
  /// - Throws: `usage`, with the most similar name, if there is no such command.
  static func command(_ name: String) throws -> any Command.Type {
    let all = commands + [HelpCommand.self]
    if let command = all.first(where: { $0.name == name }) { return command }
    let near = name.nearest(in: all.map { $0.name })
    throw CairnError(
      .usage, "there is no command '\(URLPassword.hidden(in: name))'",
      hint: (near.map { "did you mean '\($0)'? " } ?? "") + "see 'cairn --help'", remedy: .badInput)
  }

  /// Converts any error to a ``CairnError`` for the message and the exit status.
  static func envelope(_ error: any Error) -> CairnError {
    switch error {
    case let error as CairnError: error
    case let error as SQLiteError: error.asCairnError
    case let error as PostgresError: error.asCairnError
    case let error as FileError: error.asCairnError(doing: "run")
    case let error as DecodingError:
      CairnError(.trailDamaged, "cannot decode a record: \(error)", hint: "run 'cairn trail verify'")
    default: CairnError(.bug, "unexpected: \(error)", hint: "please report this", remedy: .bug)
    }
  }

  static var help: String {
    let width = commands.map { $0.name.count }.max() ?? 0
    let list = commands.map { command in
      "  " + command.name + String(repeating: " ", count: width - command.name.count) + "  " + command.summary
    }
    return """
      cairn: log-replay replication between SQLite and PostgreSQL

      usage: cairn COMMAND [OPTION ...]

      \(list.joined(separator: "\n"))

      example: cairn replicate --from sqlite:shop.db --to sqlite:copy.db

      'cairn COMMAND --help' says more, 'cairn explain CODE' what an error means, 'cairn --version' what this is.
      """
  }
}
