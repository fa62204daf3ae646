import Foundation
import HostilePeer
import TestServers

/// `make hostile`: attacks with many trails and many requests, and prints the counts.
///
/// Exit status: 0 without a finding, 1 with some, 2 for a wrong command line.
///
///     cairn-hostile --trails 100000 --requests 1000000 --cairnd .build-asan/release/cairnd
@main struct HostileRun {
  /// Prints a line at once, also into a file.
  static func say(_ line: some CustomStringConvertible) {
    FileHandle.standardOutput.write(Data("\(line)\n".utf8))
  }

  static func main() throws {
    var given = ["--trails": "100000", "--requests": "1000000", "--seed": "\(UInt64.random(in: 0...9_999_999))"]
    var words = Array(CommandLine.arguments.dropFirst())
    while words.count > 1, words[0].hasPrefix("--") {
      given[words[0]] = words[1]
      words.removeFirst(2)
    }
    guard words.isEmpty, let trails = Int(given["--trails"] ?? ""), let requests = Int(given["--requests"] ?? ""),
      let seed = UInt64(given["--seed"] ?? ""), requests == 0 || given["--cairnd"] != nil
    else {
      FileHandle.standardError.write(
        Data("use: cairn-hostile --cairnd PROGRAM [--trails N] [--requests N] [--seed N]\n".utf8))
      exit(2)
    }
    say("hostile peer: seed \(seed)")
    var wrong: [String] = []
    if trails > 0 {
      var attack = try MutatedTrails(
        seed: seed, server: PostgresServer.isAvailable ? PostgresServer.shared : nil, isAlone: true)
      say("hostile peer: \(HostileHeaders.count) headers with extreme numbers: \(try attack.headers()) taken")
      try attack.run(trails) { if $0.trails % 5000 == 0 { say($0) } }
      say("hostile peer: \(attack.report)")
      say("why applies stopped: \(attack.report.errors.sorted { $0.value > $1.value }.map { "\($0.key) \($0.value)" })")
      wrong += attack.report.wrong
    }
    if requests > 0 {
      var attack = DaemonAttack(cairnd: given["--cairnd"] ?? "", seed: seed)
      var shown = 0
      try attack.run(requests) { report in
        say(report)
        for finding in report.wrong.dropFirst(shown) { say("found \(finding)") }
        shown = report.wrong.count
      }
      say("hostile peer: \(attack.report)")
      wrong += attack.report.wrong
    }
    for finding in wrong { print("FINDING \(finding)") }
    say("hostile peer: \(wrong.count) findings")
    exit(wrong.isEmpty ? 0 : 1)
  }
}
