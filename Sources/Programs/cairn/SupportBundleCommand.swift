import Changes
import Configuring
import ControlAPI
import Deploying
import Endpoints
import Glibc
import SQLiteKit
import SystemKit
import Trails

/// `cairn support-bundle`: writes what a stranger needs to help into one archive, without values of rows.
struct SupportBundleCommand: Command {
  static let name = "support-bundle"
  static let summary = "write status, conf, log and versions into one archive for support, without rows"
  static let operands = ""
  static let options =
    [
      Option("--output", "FILE", "the archive, which must not exist (default cairn-support-NODE-TIME.tar)"),
      Option("--log", "FILE", "the log of the daemon, instead of systemd's journal"),
    ] + DaemonPeer.options
  static let details = """
    The archive (tar) has the status, the conf with its problems, the last lines of the log, and versions. It also has
    the names and sizes of the files of trails. Only its owner may read it. A part that cannot be read is replaced by the reason.

    No rows, passwords, tokens, keys or certificates are copied. A message ends with '…' at its first quote, bracket,
    '=' or colon, as values of rows may follow; names of commands stay. Digits become '#'. The code of a message says what
    it is about ('cairn explain CODE'). The conf keeps names of databases, tables and hosts, and the expressions of rules.
    Read the files before you send them.

    example: cairn support-bundle --output /tmp/cairn.tar
    """

  private static let logLines = 2_000
  private static let logBytes = 4 << 20

  static func run(_ arguments: Arguments) throws -> Int32 {
    _ = try arguments.operands(0...0)
    let now = Clock.system.microseconds()
    let loaded = ConfFolder.load(arguments.value("--config") ?? ConfFolder.usual)
    let node = loaded.place.node.flatMap { $0.isBundleName ? $0 : nil } ?? "node"
    let stamp = UTCTime(now).description.prefix(19).filter { $0 != "-" && $0 != ":" }
    let root = "cairn-support-\(node.prefix(40))-\(stamp)Z"
    let parts = [
      ("versions.txt", versions), ("status.json", status(arguments)), ("conf.txt", conf(loaded)),
      ("files.txt", files(loaded.place.state ?? "/var/lib/cairn")), ("log.txt", try log(arguments)),
    ]
    var archive = TarArchive()
    for (name, text) in parts { try archive.add("\(root)/\(name)", text, at: now / 1_000_000) }
    let path = arguments.value("--output") ?? root + ".tar"
    try write(archive.bytes, to: path)
    if arguments.has("--json") {
      Terminal.print(
        JSONObject([
          ("event", .text("bundled")), ("file", .text(path)), ("parts", .list(parts.map { .text($0.0) })),
        ]).line)
    } else {
      Terminal.print("wrote \(path): \(parts.map(\.0).joined(separator: ", "))")
      Terminal.note("read it before you send it: 'tar -xf \(path)'")
    }
    return 0
  }

  private static func write(_ bytes: [UInt8], to path: String) throws {
    do throws(FileError) {
      let file = try File(path, .create, permissions: 0o600)
      var failure: FileError?
      bytes.withUnsafeBytes { buffer in
        do throws(FileError) { try file.write(buffer, at: 0) } catch { failure = error }
      }
      if let failure {
        try? Folder.remove(path)
        throw failure
      }
      try file.close()
    } catch { throw error.asCairnError(doing: "write the archive") }
  }

  // MARK: Parts

  private static var versions: String {
    var system = utsname()
    uname(&system)
    func text(_ field: some Any) -> String {
      withUnsafeBytes(of: field) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }
    let release = (try? File.text("/etc/os-release", bytesMax: 1 << 16))?.split(at: "\n")
      .first { $0.hasPrefix("PRETTY_NAME=") }
    return """
      cairn \(Cairn.version) (trail format 1, SQLite \(Database.libraryVersion))
      \(text(system.sysname)) \(text(system.release)) \(text(system.machine))
      \(release ?? "no /etc/os-release")

      """
  }

  private static func status(_ arguments: Arguments) -> String {
    do {
      let answer = try DaemonPeer.address(arguments).ask(ControlRequest(.status), seconds: 10)
      return MaskedText.masked(answer).line + "\n"
    } catch { return reason(error) }
  }

  private static func conf(_ loaded: LoadedConfiguration) -> String {
    var lines = loaded.files.map { "# file \($0)" }
    var section = ""
    for setting in loaded.settings {
      if !setting.section.hasSameBytes(as: section) {
        section = setting.section
        lines.append(section)
      }
      // A value that is wrong may be a password in the wrong place.
      if case .wrong = setting.origin {
        lines.append("\(setting.key) is wrong")
      } else if let value = setting.value {
        lines.append("\(setting.key) = \(URLPassword.hidden(in: value))")
      }
    }
    for problem in loaded.problems {
      lines.append("# problem [\(problem.code.rawValue)] at \(problem.place): \(MaskedText.masked(problem.message))")
    }
    for notice in loaded.notices { lines.append("# notice: \(URLPassword.hidden(in: notice))") }
    return lines.map(\.oneLine).joined(separator: "\n") + "\n"
  }

  private static func files(_ state: String) -> String {
    do {
      var lines: [String] = []
      for trail in try Trail.names(state: state) {
        for name in try Folder.names("\(state)/\(trail)").sorted() {
          let size = (try? File("\(state)/\(trail)/\(name)", .read).size).map { String($0) } ?? "unreadable"
          lines.append("\(size) \(trail)/\(name)".oneLine)
        }
      }
      return lines.joined(separator: "\n") + "\n"
    } catch { return reason(error) }
  }

  private static func log(_ arguments: Arguments) throws -> String {
    var text = ""
    if let path = arguments.value("--log") {
      do throws(FileError) { text = try end(of: path) } catch { throw error.asCairnError(doing: "read the log") }
    } else {
      text = journal
    }
    let lines = text.split(at: "\n").suffix(logLines)
    guard !lines.isEmpty else { return "no log: name its file with --log\n" }
    return lines.map { MaskedLog.masked($0).oneLine }.joined(separator: "\n") + "\n"
  }

  private static func end(of path: String) throws(FileError) -> String {
    let file = try File(path, .read)
    let size = try file.size
    let from = size > UInt64(logBytes) ? size - UInt64(logBytes) : 0
    var bytes = [UInt8](repeating: 0, count: Int(size - from))
    var outcome: Result<Int, FileError> = .success(0)
    bytes.withUnsafeMutableBytes { buffer in
      do throws(FileError) { outcome = .success(try file.read(into: buffer, at: from)) } catch {
        outcome = .failure(error)
      }
    }
    return String(decoding: bytes.prefix(try outcome.get()), as: UTF8.self)
  }

  // The last lines of the unit in systemd's journal; empty without a journal.
  private static var journal: String {
    guard let pipe = popen("journalctl -q --no-pager -o short-iso -n \(logLines) -u cairnd 2>/dev/null", "r") else {
      return ""
    }
    defer { pclose(pipe) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while bytes.count < logBytes {
      let count = fread(&buffer, 1, buffer.count, pipe)
      if count == 0 { break }
      bytes += buffer.prefix(count)
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  private static func reason(_ error: any Error) -> String {
    let error = Cairn.envelope(error)
    return "not read: [\(error.code.rawValue)] \(MaskedText.masked(error.message))\n"
  }
}

extension String {
  // A name that a path in the archive can have.
  fileprivate var isBundleName: Bool {
    utf8.allSatisfy { (0x61...0x7a).contains($0) || (0x30...0x39).contains($0) || $0 == 0x5f || $0 == 0x2d }
  }
}
