import Changes
import Glibc
import SystemKit
import TestServers
import Trails

/// W9: a backlog that goes to another node, compared with the rate of the same libraries when nothing is checked or
/// stored.
struct CopyRate {
  let stage: Stage

  private static let mebibyte = 1_048_576.0

  func run() throws -> [Report] {
    let bytes = UInt64(Double(stage.options.backlogBytes) * stage.options.scale)
    let source = try stage.freshFolder("till")
    stage.note("W9: writing a trail of \(bytes >> 20) MiB")
    let trail = try SalesTrail(state: source)
    try trail.fill(bytes: bytes)
    try trail.close()
    let sum = try Trail.verify(folder: "\(source)/\(SalesTrail.name)")
    let certificates = try BenchCertificates(stage.freshFolder("certificates"))
    var reports = CopyWay.all.map { Report(.copies, $0.name) }
    for round in 0..<stage.options.rounds {
      for (index, way) in CopyWay.all.enumerated() {
        try measure(way, certificates, source, sum.bytes, &reports[index])
        stage.note("W9, round \(round + 1) of \(stage.options.rounds), \(way.name)")
      }
    }
    for index in reports.indices {
      reports[index].changes = Int(sum.changes)
      reports[index].add(fact: "trail_bytes", Double(sum.bytes))
    }
    return reports
  }

  private func measure(
    _ way: CopyWay, _ certificates: BenchCertificates, _ source: String, _ bytes: UInt64, _ report: inout Report
  ) throws {
    let server = way.isTLS ? certificates.server : nil
    let client = try way.isTLS ? certificates.client("loop") : nil
    for isDurable in [false, true] {
      let loop = try EmptyLoop(stage.freshFolder("loop"), isDurable: isDurable)
      let bodies = max(16, Int(bytes) / EmptyLoop.bodyBytes / (isDurable ? 4 : 1))
      stage.settle()
      let rate =
        try way.direction == .push
        ? loop.push(bodies: bodies, server, client) : loop.pull(bodies: bodies, server, client)
      report.add(ceiling: isDurable ? "durable_loop" : "loop", rate / Self.mebibyte)
    }
    let check = try CheckAlone.rate(folder: "\(source)/\(SalesTrail.name)", bytesMax: 128 << 20)
    report.add(ceiling: "check_alone", check / Self.mebibyte)
    let (from, to) = (try PumpNode("till", state: source), try PumpNode("hub", state: stage.freshFolder("hub")))
    stage.settle()
    let (begun, used) = (Stopwatch(), Self.cpuSeconds)
    let dialler = try way.connect(from, to, certificates)
    try to.wait(until: from, pump: dialler, pause: 1000)
    let seconds = begun.seconds
    report.add(fact: "cpu_seconds", Self.cpuSeconds - used)
    report.add(.cairn, Double(bytes) / Self.mebibyte / seconds)
    from.stop()
    to.stop()
    try judge(from.folder, to.folder)
  }

  /// Throws unless the copy has every segment, with the same bytes.
  private func judge(_ from: String, _ to: String) throws {
    let segments = try Trail.info(folder: from).segments
    guard try Trail.info(folder: to).segments == segments else { throw TestFailure("the copy has other segments") }
    let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 2 << 20, alignment: 16)
    defer { memory.deallocate() }
    let halves = [memory[..<(1 << 20)], memory[(1 << 20)...]].map { UnsafeMutableRawBufferPointer(rebasing: $0) }
    for segment in segments {
      let files = try [from, to].map { try File("\($0)/\(segment.number.hex(8)).seg", .read) }
      for offset in stride(from: 0, to: segment.bytes, by: 1 << 20) {
        let count = Int(min(1 << 20, segment.bytes - offset))
        let pieces = try zip(files, halves).map { file, half in
          let piece = UnsafeMutableRawBufferPointer(rebasing: half[..<count])
          guard try file.read(into: piece, at: offset) == count else { throw TestFailure("a segment is too short") }
          return UnsafeRawBufferPointer(piece)
        }
        guard pieces[0].isSame(as: pieces[1]) else {
          throw TestFailure("segment \(segment.number) of the copy differs behind byte \(offset)")
        }
      }
    }
  }

  /// The CPU time of this process, which is both nodes.
  private static var cpuSeconds: Double {
    var usage = rusage()
    getrusage(RUSAGE_SELF.rawValue, &usage)
    return [usage.ru_utime, usage.ru_stime].reduce(0) { $0 + Double($1.tv_sec) + Double($1.tv_usec) / 1e6 }
  }
}
