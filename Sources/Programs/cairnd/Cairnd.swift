import Changes
import Configuring
import Daemon
import Deploying
import Endpoints
import Glibc
import SQLiteKit
import ServiceKit
import SystemKit

/// The main program of `cairnd`: reads its arguments and the conf, and runs a ``Daemon``.
@main
struct Cairnd {
  private static let usage = """
    cairnd: runs the captures and applies of a node, as its conf says

    usage: cairnd [--config DIR]

      --config DIR  folder with cairn.toml and conf.d/*.toml (default /etc/cairn)
      --version     print what this is
      --help        print this

    It stays in the foreground; systemd starts and watches it (cairnd.service). SIGHUP loads the conf anew, SIGTERM ends
    it at a border of transactions. 'cairn status' shows what it does.

    example: cairnd --config /etc/cairn
    """

  static func main() {
    // Before any other thread exists.
    let signals = Daemon.blockSignals()
    Database.surviveHostileFiles()
    exit(run(Array(CommandLine.arguments.dropFirst()), signals))
  }

  private static func run(_ words: [String], _ signals: sigset_t) -> Int32 {
    let log = ServiceLog()
    do {
      if words.contains("--help") || words.contains("-h") { return say(usage) }
      if words.contains("--version") {
        return say("cairnd \(Product.version) (trail format 1, SQLite \(Database.libraryVersion))")
      }
      let folder = try folder(words)
      let load: Daemon.Load = { ConfFolder.load(folder) }
      let loaded = load()
      guard let configuration = loaded.configuration else {
        for problem in loaded.problems { log.write(LogEntry(problem.error, .error)) }
        return loaded.problems.first?.code.exitStatus ?? ErrorCode.usage.exitStatus
      }
      for notice in loaded.notices { log.write(LogEntry(.warning, notice)) }
      log.setLevel(configuration.log.serviceLevel)
      return try Daemon(configuration, version: Product.version, log: log, load: load).run(signals)
    } catch {
      let error = CairnError(enveloping: error, doing: "run")
      log.write(LogEntry(error, .error))
      return error.code.exitStatus
    }
  }

  private static func folder(_ words: [String]) throws -> String {
    var folder: String?
    var rest = words[...]
    while let word = rest.popFirst() {
      let parts = word.split(at: "=", maxSplits: 1, omittingEmpty: false)
      guard parts[0] == "--config" else {
        throw CairnError(.usage, "'\(word)' is unknown to cairnd", hint: "see 'cairnd --help'", remedy: .badInput)
      }
      guard let value = parts.count == 2 ? parts[1] : rest.popFirst(), !value.isEmpty, folder == nil else {
        throw CairnError(
          .usage, folder == nil ? "--config needs a folder" : "--config is given twice", hint: "see 'cairnd --help'",
          remedy: .badInput)
      }
      folder = value
    }
    return FileIdentity.canonical(folder ?? ConfFolder.usual)
  }

  private static func say(_ text: String) -> Int32 {
    var text = text + "\n"
    text.withUTF8 { _ = write(1, $0.baseAddress, $0.count) }
    return 0
  }
}
