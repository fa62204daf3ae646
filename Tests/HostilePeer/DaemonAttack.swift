import Changes
import Foundation
import SQLiteKit
import SystemKit
import TestServers
import Trails

/// Requests of a hostile peer to a daemon that has a trail which the peer may not read.
///
/// The daemon applies what the peer pushes into one table, and has limits for memory and disk.
///
///     var attack = DaemonAttack(cairnd: ".build/debug/cairnd", seed: 1)
///     try attack.run(10_000)
///     print(attack.report)
package struct DaemonAttack {
  package struct Report: CustomStringConvertible {
    package var requests = 0
    package var starts = 0
    package var milliseconds: Int64 = 0
    package var statuses: [Int: Int] = [:]
    package var unanswered = 0
    /// The daemon's memory before the first request and at its most, and the most that its state takes on the disk.
    package var residentBytes = 0
    package var peakBytes = 0
    package var diskBytes = 0
    /// The number of the peer's trails that were applied at least in part, of all daemons.
    package var applied = 0
    package var wrong: [String] = []

    package var description: String {
      let told = statuses.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }.joined(separator: ", ")
      return "\(requests) requests in \(milliseconds / 1000) s to \(starts) daemons: \(told), without answer: "
        + "\(unanswered); memory \(residentBytes >> 20) MiB before, \(peakBytes >> 20) MiB at most; "
        + "\(diskBytes >> 20) MiB of disk at most; \(applied) trails applied; \(wrong.count) findings"
    }
  }

  /// `[limits] disk` of the daemon, and what the open segments may take beside it.
  package static let diskBudget = 64 << 20
  private static let diskSlack = 8 << 20
  /// The memory that the daemon may take beyond that of its start: its budget for blocks, and what a sanitizer keeps.
  package static let memoryBudget = 256 << 20
  private static let memorySlack = 192 << 20
  /// After so many requests the daemon is ended, and another one begins with an empty state.
  private static let roundRequests = 25_000

  package private(set) var report = Report()
  private let cairnd: String
  private let seed: UInt64

  package init(cairnd: String, seed: UInt64) {
    self.cairnd = cairnd.hasPrefix("/") ? cairnd : FileManager.default.currentDirectoryPath + "/" + cairnd
    self.seed = seed
  }

  package mutating func run(_ count: Int, threads: Int = 2, note: (Report) -> Void = { _ in }) throws {
    let start = Clock.monotonicMilliseconds
    var (left, round) = (count, UInt64(0))
    while left > 0, report.wrong.count < 5 {
      let batch = min(left, Self.roundRequests)
      try attack(batch, threads, seed &+ round &* 1000)
      report.milliseconds = Clock.monotonicMilliseconds - start
      note(report)
      (left, round) = (left - batch, round + 1)
    }
    // Else nothing was attacked but the listener.
    if count >= Self.roundRequests, report.applied == 0 { report.wrong.append("no trail was applied") }
  }

  // MARK: One daemon

  private mutating func attack(_ count: Int, _ threads: Int, _ seed: UInt64) throws {
    let folder = try makeTemporaryFolder("hostile-daemon")
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let node = try HostileNode(folder, cairnd)
    defer { node.daemon.signal(SIGKILL) }
    report.starts += 1
    let resident = residentMemory(of: node.daemon.processIdentifier)
    report.residentBytes = max(report.residentBytes, resident)
    let workers = try (0..<threads).map { n in
      try WorkerThread<Tally> { [port = node.port, known = node.known, needle = node.needle] in
        Self.ask(port, count / threads + (n < count % threads ? 1 : 0), seed &+ UInt64(n), known, needle)
      }
    }
    var (peak, disk) = (0, 0)
    repeat {
      Clock.sleep(milliseconds: 100)
      peak = max(peak, residentMemory(of: node.daemon.processIdentifier))
      disk = max(disk, allocatedBytes(below: node.state))
    } while workers.contains { $0.outcome == nil }
    let tallies = workers.map { $0.join() }
    report.peakBytes = max(report.peakBytes, peak)
    report.diskBytes = max(report.diskBytes, disk)
    for tally in tallies.compactMap({ $0 }) {
      report.requests += tally.requests
      report.unanswered += tally.unanswered
      report.statuses.merge(tally.statuses) { $0 + $1 }
      report.wrong += tally.wrong
    }
    func require(_ isRight: Bool, _ what: String) {
      if !isRight { report.wrong.append("CAIRN_SEED=\(seed): \(what)") }
    }
    require(peak < resident + Self.memoryBudget + Self.memorySlack, "\(peak >> 20) MiB of memory")
    require(disk < Self.diskBudget + Self.diskSlack, "\(disk >> 20) MiB of disk")
    for problem in try node.problems() { require(false, problem) }
    report.applied += try node.appliedCount()
  }

  private struct Tally: Sendable {
    var requests = 0
    var unanswered = 0
    var statuses: [Int: Int] = [:]
    var wrong: [String] = []
  }

  private static func ask(
    _ port: UInt16, _ count: Int, _ seed: UInt64, _ known: HostileRequest.Known, _ needle: [UInt8]
  ) -> Tally {
    var random = Seeded(seed)
    var tally = Tally()
    let connection = HostileConnection(port)
    for n in 0..<count {
      let request = HostileRequest(&random, known)
      tally.requests += 1
      if n % 97 == 96 {
        connection.breakOff(request.bytes)
        continue
      }
      guard let answer = connection.ask(request.bytes, isHead: request.method == "HEAD") else {
        tally.unanswered += 1
        continue
      }
      tally.statuses[answer.status, default: 0] += 1
      if answer.status == 500 {
        tally.wrong.append("CAIRN_SEED=\(seed), request \(n): \(String(decoding: answer.body, as: UTF8.self))")
      }
      if answer.body.count >= needle.count, answer.body.firstRange(of: needle) != nil {
        tally.wrong.append("CAIRN_SEED=\(seed), request \(n): bytes of another trail")
      }
    }
    return tally
  }
}
