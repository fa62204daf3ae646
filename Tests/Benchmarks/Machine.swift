import Changes
import Glibc
import SQLiteKit

/// The machine and the program versions of a measurement.
enum Machine {
  static func describe(_ stage: Stage) throws -> JSONObject {
    let info = MeasuredRun.text("/proc/cpuinfo").split(separator: "\n")
    let model = info.first { $0.hasPrefix("model name") }?.split(separator: ":").last.map { $0.drop { $0 == " " } }
    let load = MeasuredRun.text("/proc/loadavg").split(separator: " ").first.flatMap { Double($0) } ?? 0
    let kernel = MeasuredRun.text("/proc/sys/kernel/osrelease").split(separator: "\n").first ?? ""
    return JSONObject([
      ("cpu", .text(String(model ?? "unknown"))), ("cores", .integer(Int64(sysconf(Int32(_SC_NPROCESSORS_ONLN))))),
      ("load", .real(load)), ("kernel", .text(String(kernel))), ("cairn", .text(try version(stage))),
      ("postgresql", try stage.postgresVersion.map { .text($0) } ?? .null), ("sqlite", .text(Database.libraryVersion)),
      ("scale", Figures.number(stage.options.scale)),
    ])
  }

  /// Returns the version that `cairn --version` prints after its name.
  private static func version(_ stage: Stage) throws -> String {
    _ = try MeasuredRun(stage.options.cairn, ["--version"], in: stage.folder)
    let words = MeasuredRun.text(stage.path("run.out")).split { $0 == " " || $0 == "\n" }
    return words.count > 1 ? String(words[1]) : "unknown"
  }
}
