import CSystemd
import Changes
import CodecKit
import Glibc
import Synchronization

/// An entry of the log, with its fields.
///
///     LogEntry(.warning, "the slot was lost", worker: "capture.pos", hint: "copy the tables again")
package struct LogEntry: Equatable, Sendable {
  /// The level of an entry, as in syslog(3).
  ///
  ///     LogEntry.Level(name: "warning")   // .warning
  package enum Level: Int32, Comparable, Sendable, CaseIterable {
    case error = 3
    case warning = 4
    case notice = 5
    case info = 6
    case debug = 7

    package static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
    package init?(name: String) {
      guard let level = Self.allCases.first(where: { "\($0)" == name }) else { return nil }
      self = level
    }
  }

  package var level: Level
  package var message: String
  package var worker: String?
  package var code: ErrorCode?
  package var hint: String?
  /// Values from the context of an error, by name, such as `table` and `position`.
  package var context: [String: String]

  package init(
    _ level: Level, _ message: String, worker: String? = nil, code: ErrorCode? = nil, hint: String? = nil,
    context: [String: String] = [:]
  ) {
    (self.level, self.message, self.worker, self.code, self.hint, self.context) =
      (level, message, worker, code, hint, context)
  }

  package init(_ error: CairnError, _ level: Level, worker: String? = nil) {
    self.init(level, error.message, worker: worker, code: error.code, hint: error.hint, context: error.context)
  }

  /// The fields of the entry in systemd's journal, such as `MESSAGE`. Fields of Cairn begin with `CAIRN_`.
  package var fields: [(name: String, value: String)] {
    var fields = [("PRIORITY", String(level.rawValue)), ("MESSAGE", line), ("SYSLOG_IDENTIFIER", "cairnd")]
    if let worker { fields.append(("CAIRN_WORKER", worker)) }
    if let code {
      fields.append(("CAIRN_CODE", code.rawValue))
      fields.append(("MESSAGE_ID", code.messageID))
    }
    if let hint, !hint.isEmpty { fields.append(("CAIRN_HINT", hint.cutMessage.oneLine)) }
    for (key, value) in context.sorted(by: { $0.key < $1.key }) where Self.isField(key) {
      fields.append(("CAIRN_" + key.asciiUppercased, value.cutMessage.oneLine))
    }
    return fields.map { (name: $0.0, value: $0.1) }
  }

  package var line: String {
    let who = worker.map { "\($0): " } ?? ""
    let what = code.map { "[\($0.rawValue)] " } ?? ""
    let next = hint.map { $0.isEmpty ? "" : " (hint: \($0))" } ?? ""
    // Names and keys come from databases and peers.
    return (who + what + message.cutMessage + next.cutMessage).oneLine
  }

  private static func isField(_ key: String) -> Bool {
    !key.isEmpty && key.utf8.allSatisfy { (0x61...0x7a).contains($0) || $0 == 0x5f }
  }
}

extension String {
  /// The text, cut to 4 KiB: a name in a message can have 16 MiB.
  package var cutMessage: String {
    utf8.count <= 4096 ? self : String(decoding: utf8.prefix(4096), as: UTF8.self) + "…"
  }
}

extension ErrorCode {
  /// The `MESSAGE_ID` in systemd's journal for messages with this code, the same in all versions.
  package var messageID: String {
    guard let hash = try? SHA256() else { return "" }
    hash.update(Array("cairn:\(rawValue)".utf8))
    return Array(hash.finalize().prefix(16)).hex
  }
}

/// The log of a service, to systemd's journal or to standard error. Any thread may write entries.
///
///     let log = ServiceLog(level: .notice)
///     log.write(LogEntry(.notice, "all is ready"))
package final class ServiceLog: Sendable {
  private let isJournal: Bool
  private let isTerminal: Bool
  private let limit: Mutex<LogEntry.Level>

  /// Creates a log that writes to standard error, or to systemd's journal if standard error leads there.
  ///
  /// - Parameter journalStream: The variable `JOURNAL_STREAM`: device and inode of the stream that systemd's journal
  ///   reads.
  package init(
    level: LogEntry.Level = .info, journalStream: String? = getenv("JOURNAL_STREAM").map { String(cString: $0) }
  ) {
    var status = stat()
    isJournal = fstat(2, &status) == 0 && journalStream == "\(status.st_dev):\(status.st_ino)"
    isTerminal = isatty(2) == 1
    limit = Mutex(level)
  }

  /// Sets the least severe level that is written. Less severe entries are left out.
  package func setLevel(_ level: LogEntry.Level) { limit.withLock { $0 = level } }

  package func write(_ entry: LogEntry) {
    guard entry.level <= limit.withLock({ $0 }) else { return }
    if isJournal, send(entry) { return }
    var text = (isTerminal ? "" : "<\(entry.level.rawValue)>") + "cairnd: " + entry.line + "\n"
    text.withUTF8 { bytes in
      var rest = UnsafeRawBufferPointer(bytes)
      while let start = rest.baseAddress, !rest.isEmpty {
        let n = Glibc.write(2, start, rest.count)
        if n < 0, errno == EINTR { continue }
        // There is no other place to report this.
        guard n > 0 else { return }
        rest = UnsafeRawBufferPointer(rebasing: rest[n...])
      }
    }
  }

  private func send(_ entry: LogEntry) -> Bool {
    var texts: [UnsafeMutablePointer<CChar>] = []
    defer { for text in texts { free(text) } }
    for field in entry.fields {
      if let text = strdup("\(field.name)=\(field.value)") { texts.append(text) }
    }
    let parts = texts.map { iovec(iov_base: UnsafeMutableRawPointer($0), iov_len: strlen($0)) }
    return parts.withUnsafeBufferPointer { sd_journal_sendv($0.baseAddress, Int32($0.count)) } == 0
  }
}
