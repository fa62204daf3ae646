import Glibc
import SystemKit
import TestServers

/// One run of a program: its time and its resources.
struct MeasuredRun {
  var seconds = 0.0
  /// The CPU time in user mode and in the kernel.
  var cpuSeconds = 0.0
  /// The largest anonymous resident memory that was seen, looked at every 20 ms.
  var peakMebibytes = 0.0

  /// A limit beyond which the program must be stuck.
  private static let limitSeconds = 1800.0

  init() {}

  /// Runs a program to its end, and calls `watch` every 20 ms. Throws if its exit status is not 0.
  init(
    _ program: String, _ arguments: [String], in folder: String, output: String? = nil, watch: () throws -> Void = {}
  ) throws {
    let errors = folder + "/run.err"
    let begun = Stopwatch()
    let child = try Self.start(program, arguments, in: folder, output: output)
    var isAtWork = true
    var looked = -1.0
    while isAtWork {
      if begun.seconds - looked >= 0.02 {
        looked = begun.seconds
        peakMebibytes = max(peakMebibytes, Self.anonymousMebibytes(child.processIdentifier))
        try watch()
      }
      usleep(1000)
      isAtWork = child.isRunning
      guard begun.seconds < Self.limitSeconds else { throw TestFailure("\(program) does not come to an end") }
    }
    seconds = begun.seconds
    cpuSeconds = Self.seconds(child.usage.ru_utime) + Self.seconds(child.usage.ru_stime)
    guard child.terminationStatus == 0 else {
      let words = ([program] + arguments).joined(separator: " ")
      throw TestFailure("\(words) ended with \(child.terminationStatus): \(Self.text(errors).suffix(2000))")
    }
  }

  /// Starts a program with a minimal environment. Its output goes to files in the folder.
  static func start(_ program: String, _ arguments: [String], in folder: String, output: String? = nil) throws -> Child
  {
    try Child(
      program, arguments, folder: folder,
      environment: ["PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "PGCLIENTENCODING": "UTF8"],
      output: output ?? folder + "/run.out", errors: folder + "/run.err")
  }

  private static func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }

  /// Returns the anonymous memory of a process; 0 if the process has ended.
  static func anonymousMebibytes(_ process: pid_t) -> Double {
    let line = text("/proc/\(process)/status").split(separator: "\n").first { $0.hasPrefix("RssAnon:") }
    let kibibytes = line?.split { !("0"..."9").contains($0) }.first.flatMap { Double($0) }
    return (kibibytes ?? 0) / 1024
  }

  /// Returns the first 64 KiB of a file; empty if the file does not exist.
  static func text(_ path: String) -> String {
    var bytes = [UInt8](repeating: 0, count: 65536)
    let count = try? bytes.withUnsafeMutableBytes { buffer in try File(path, .read).read(into: buffer, at: 0) }
    return String(decoding: bytes.prefix(count ?? 0), as: UTF8.self)
  }
}
