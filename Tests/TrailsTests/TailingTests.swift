import Changes
import Foundation
import Synchronization
import TestServers
import Testing

@testable import Trails

@Suite(.serialized) struct TailingTests {
  private let temp: TempFolder
  private let folder: String

  init() throws {
    temp = try TempFolder()
    folder = temp("state/till-7.pos")
  }

  private final class Reading: Sendable {
    struct State {
      var records: [Seen] = []
      var latencies: [Double] = []
      var waits = 0
      var processorSeconds = 0.0
      var error: String?
    }
    let state = Mutex(State())
  }

  private static func monotonicSeconds(_ clock: clockid_t = CLOCK_MONOTONIC) -> Double {
    var time = timespec()
    clock_gettime(clock, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }

  /// Reads in a thread of its own until `count` transactions have been seen. The commit time of each is when it was
  /// written, in µs of the monotonic clock.
  private func follow(_ folder: String, _ count: Int, _ reading: Reading) -> Thread {
    let thread = Thread {
      do {
        let reader = try TrailReader.open(folder: folder, at: nil)
        var commits = 0
        var written: Int64 = 0
        while commits < count {
          guard let record = try reader.next() else {
            _ = try reader.wait(milliseconds: 20_000)
            reading.state.withLock { $0.waits += 1 }
            continue
          }
          let seen = try Seen(record)
          let now = Self.monotonicSeconds()
          if case .begin(let header) = record { written = header.commitTime }
          if case .commit = record { commits += 1 }
          reading.state.withLock {
            $0.records.append(seen)
            if case .commit = seen { $0.latencies.append(now - Double(written) / 1e6) }
          }
        }
      } catch { reading.state.withLock { $0.error = "\(error)" } }
      reading.state.withLock { $0.processorSeconds = Self.monotonicSeconds(CLOCK_THREAD_CPUTIME_ID) }
    }
    thread.stackSize = 4 << 20
    thread.start()
    return thread
  }

  private func finish(_ thread: Thread) {
    for _ in 0..<20_000 where !thread.isFinished { usleep(1000) }
    #expect(thread.isFinished)
  }

  @Test func `a reader that waits sees each commit at once and does not spin`() throws {
    let script = Script(try openWriter(folder, .small(block: 300, segment: 4000)))
    let reading = Reading()
    let thread = follow(folder, 60, reading)
    for index in 0..<60 {
      usleep(index % 20 == 0 ? 200_000 : 3000)
      try script.begin(time: Int64(Self.monotonicSeconds() * 1e6))
      try script.insert([.integer(1), .text("x")], schema: try script.schema())
      try script.commit()
      try script.writer.sync()
    }
    finish(thread)
    let state = reading.state.withLock { $0 }
    #expect(state.error == nil)
    #expect(state.records == script.committed)
    let median = state.latencies.sorted()[state.latencies.count / 2]
    print("tailing: median \(median * 1000) ms, waits \(state.waits), processor \(state.processorSeconds) s")
    // Includes the syncs of the writer, while other tests use the disk.
    #expect(median < 0.1)
    #expect(state.waits < 400)
    #expect(state.processorSeconds < 0.5)
  }

  @Test func `a reader never misses a mark under load`() throws {
    let script = Script(try openWriter(folder, .small(block: 300, segment: 3000)))
    let readings = [Reading(), Reading()]
    let threads = readings.map { follow(folder, 300, $0) }
    for _ in 0..<300 {
      try script.transaction()
      try script.writer.sync()
    }
    for thread in threads { finish(thread) }
    for reading in readings {
      let state = reading.state.withLock { $0 }
      #expect(state.error == nil)
      #expect(state.records == script.committed)
    }
  }

  @Test func `waiting ends at the time, at a descriptor, and at a mark that came before it`() throws {
    let script = Script(try openWriter(folder))
    let reader = try TrailReader.open(folder: folder, at: nil)
    #expect(try reader.next() == nil)
    let start = Self.monotonicSeconds()
    #expect(try !reader.wait(milliseconds: 60))
    #expect(Self.monotonicSeconds() - start > 0.055)

    var pipes: [Int32] = [0, 0]
    #expect(pipe(&pipes) == 0)
    defer { for end in pipes { close(end) } }
    #expect(write(pipes[1], "x", 1) == 1)
    #expect(try !reader.wait(milliseconds: 60_000, also: pipes[0]))

    #expect(try reader.next() == nil)
    try script.transaction()
    try script.writer.sync()
    #expect(try reader.wait(milliseconds: 60_000))
    #expect(try reader.wait(milliseconds: 60_000, also: pipes[0]))
    #expect(try reader.rest() == script.committed)
    #expect(try !reader.wait(milliseconds: 0))
  }

  @Test func `a trail that is removed while it is read is missing`() throws {
    let script = Script(try openWriter(folder))
    try script.transaction()
    try script.writer.sync()
    let reader = try TrailReader.open(folder: folder, at: nil)
    _ = try reader.rest()
    try FileManager.default.removeItem(atPath: folder)
    fails(.trailMissing) { _ = try reader.wait(milliseconds: 60_000) }
  }

  @Test func `the bytes after the mark are not read`() throws {
    let script = Script(try openWriter(folder, .small(block: 60, segment: 1 << 20)))
    try script.transaction()
    try script.writer.sync()
    let synced = script.committed
    let reader = try TrailReader.open(folder: folder, at: nil)
    for _ in 0..<5 { try script.transaction() }
    #expect(try reader.rest() == synced)
    #expect(try readAll(folder) == synced)
    try script.writer.sync()
    #expect(try reader.rest() == Array(script.committed[synced.count...]))
  }

  @Test func `a reader in another process follows the writer, and a killed writer leaves all it synced`() async throws {
    let script = Script(try openWriter(folder, .small(segment: 2000)))
    for _ in 0..<20 { try script.transaction() }
    try script.writer.close()
    await #expect(processExitsWith: .exitCode(0)) { [folder = folder as String] in
      exit(try readAll(folder).count { if case .commit = $0 { true } else { false } } == 20 ? 0 : 1)
    }
    await #expect(processExitsWith: .signal(SIGKILL)) { [folder = folder as String] in
      let script = Script(try openWriter(folder, .small(segment: 2000)))
      for _ in 0..<20 { try script.transaction() }
      try script.writer.sync()
      try script.begin()
      for _ in 0..<100 { try script.insert([.integer(1), .null], schema: try script.schema()) }
      kill(getpid(), SIGKILL)
    }
    #expect(try readAll(folder).count { if case .commit = $0 { true } else { false } } == 40)
    let writer = try openWriter(folder)
    #expect(writer.recovery != nil && writer.lastHeader?.number == 40)
  }
}
