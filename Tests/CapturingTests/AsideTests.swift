import Changes
import PostgresKit
import Synchronization
import SystemKit
import TestServers
import Testing
import Trails

@testable import Capturing

extension PostgresCapturing {
  /// A capture that does not read the log while an apply alone writes.
  @Suite struct AsideTests {
    private static let slotSQL =
      "SELECT active, confirmed_flush_lsn FROM pg_replication_slots WHERE database = current_database()"

    /// An apply's session.
    private final class Apply {
      let session: PostgresConnection
      let watch: LocalWatch
      private let stop = StopSignal()
      private(set) var number: UInt64 = 0

      init(_ origin: PostgresOrigin, _ watch: LocalWatch) throws {
        (session, self.watch) = (try PostgresConnection(origin.uri), watch)
      }

      @discardableResult func askForRoom() throws -> Bool {
        try watch.standAside(for: session.backendPID, stop) != nil
      }

      private var isOpen = false

      /// A transaction that has a number.
      func begin() throws {
        try session.execute("BEGIN; SELECT pg_current_xact_id()")
        isOpen = true
      }

      /// `tells`: of its transaction, before it commits it.
      func write(_ id: Int, tells: Bool = true, commits: Bool = true) throws {
        number += 1
        let note = AppliedNote(trail: "b.x", number: number, clock: number, position: .start)
        if !isOpen { try begin() }
        isOpen = false
        try session.execute(
          "SELECT pg_logical_emit_message(true, 'cairn', '\(note.text)'); INSERT INTO public.t VALUES (\(id))")
        let transaction = try session.first("SELECT pg_current_xact_id()").flatMap { UInt64($0) }
        if tells { watch.note(try #require(transaction), note) }
        try session.execute(commits ? "COMMIT" : "ROLLBACK")
      }
    }

    /// Runs `body` beside a capture.
    private func beside(
      _ origin: PostgresOrigin, _ watch: LocalWatch, isLost: Bool = false, _ body: () throws -> Void
    ) throws {
      let stop = StopSignal()
      let (folder, uri, name, place) = (origin.trailFolder, origin.uri, origin.name, origin.folder("state"))
      let capture = WorkerThread<String?> {
        do {
          var options = PostgresCapture.Options()
          (options.place, options.watch) = (place, watch)
          let writer = try TrailWriter.open(folder: folder, name: name, now: { 0 })
          let said = Mutex<[String]>([])
          let progress = CaptureProgress { notice in said.withLock { $0.append(notice.text) } }
          try PostgresCapture(uri: uri, trail: writer, options: options, progress: progress)
            .run(stop: stop, untilCaughtUp: false)
          try writer.close()
          let lost = said.withLock { $0.filter { $0.contains("lost") } }
          return lost.isEmpty == isLost ? "connections lost: \(lost)" : nil
        } catch { return "\(error)" }
      }
      defer {
        stop.set()
        #expect(capture.join() == .some(nil))
      }
      try body()
    }

    private func wait(_ what: String, until isSo: () throws -> Bool) throws {
      let limit = Clock.monotonicMilliseconds + 20_000
      while try !isSo() {
        guard Clock.monotonicMilliseconds < limit else { throw TestFailure("never: \(what)") }
        Clock.sleep(milliseconds: 10)
      }
    }

    private func slot(_ origin: PostgresOrigin) throws -> (isActive: Bool, confirmed: LSN) {
      let parts = try origin.run(Self.slotSQL).split(separator: "|").map(String.init)
      return (parts[0] == "t", try #require(LSN(parts[1])))
    }

    /// Asks again, as others on the server may have called the capture back.
    private func isRead(_ origin: PostgresOrigin, _ apply: Apply) throws -> Bool {
      try apply.askForRoom()
      return try slot(origin).isActive
    }

    private func known(_ origin: PostgresOrigin) throws -> UInt64? {
      try transactions(of: origin.trailFolder).last?.header.dependencies.first { $0.origin == "b.x" }?.number
    }

    @Test func `it tells what was applied, moves the slot, and comes back when a program writes`() throws {
      let origin = try PostgresOrigin("CREATE TABLE t(id int PRIMARY KEY)")
      try origin.take()
      let last = try origin.lastNumber
      let watch = LocalWatch(uri: origin.uri, pauseMilliseconds: 0)
      try beside(origin, watch) {
        let apply = try Apply(origin, watch)
        let before = try slot(origin).confirmed
        try apply.begin()
        // As long as an apply's transaction runs.
        try wait("the stream ends") { try !isRead(origin, apply) }
        let session = try PostgresConnection(origin.uri)
        #expect(try PostgresSource.idleSlots(session).isEmpty)
        #expect(throws: CairnError.self, "the slot is in use") { _ = try PostgresSource.detach(session) }
        try apply.write(1)
        try apply.write(2)
        try apply.write(3, commits: false)
        try wait("what was applied is told") { try known(origin) == 2 }
        try wait("the slot moves") { try slot(origin).confirmed > before }
        try origin.run("INSERT INTO public.t VALUES (4)")
        try wait("the stream begins again") { try slot(origin).isActive }
        #expect(try watch.catchUp(StopSignal()) != nil)
        try apply.write(5)
        try wait("what is applied is told again") { try known(origin) == 4 }
      }
      #expect(try origin.lines(from: last) == ["insert t id=4"])
      let header = try transactions(of: origin.trailFolder).first { $0.header.number > last && $0.records > 0 }?.header
      #expect(header?.dependencies == [.init(origin: "b.x", number: 2)])
    }

    @Test func `one that was called back does not begin again at once, one that was done may`() {
      for isCalled in [true, false] {
        let aside = Aside(pauseMilliseconds: 60_000)
        #expect(!aside.begin(), "nobody has asked")
        #expect(aside.ask(for: 7) && aside.begin() && !aside.ask(for: 8))
        #expect(aside.sessions == [7, 8])
        aside.end(isCalled: isCalled)
        #expect(aside.ask(for: 7) != isCalled)
        aside.cease()
        #expect(!aside.ask(for: 7), "who asks waits for the answer")
      }
    }

    @Test func `it comes back for whoever waits for a message, and for an apply's transaction that was not told`()
      throws
    {
      let origin = try PostgresOrigin("CREATE TABLE t(id int PRIMARY KEY)")
      try origin.take()
      let last = try origin.lastNumber
      let watch = LocalWatch(uri: origin.uri, pauseMilliseconds: 0)
      try beside(origin, watch) {
        let apply = try Apply(origin, watch)
        #expect(try apply.askForRoom())
        #expect(try watch.catchUp(StopSignal()) != nil)
        #expect(try apply.askForRoom())
        try apply.write(1, tells: false)
        try wait("the stream begins again") { try slot(origin).isActive }
        try wait("what it brought is told") { try known(origin) == 1 }
      }
      #expect(try origin.lines(from: last) == [])
    }

    @Test func `a program's transaction that was open all the time is not passed over`() throws {
      let origin = try PostgresOrigin("CREATE TABLE t(id int PRIMARY KEY)")
      try origin.take()
      let last = try origin.lastNumber
      let watch = LocalWatch(uri: origin.uri)
      try beside(origin, watch) {
        let (apply, program) = (try Apply(origin, watch), try PostgresConnection(origin.uri))
        try program.execute("BEGIN; INSERT INTO public.t VALUES (1)")
        #expect(try apply.askForRoom())
        try apply.write(2)
        try program.execute("COMMIT")
        try apply.write(3)
        #expect(try watch.catchUp(StopSignal()) != nil)
      }
      #expect(try origin.lines(from: last) == ["insert t id=1"])
    }

    @Test func `a server that crashes meanwhile loses nothing of what programs wrote behind that`() throws {
      let origin = try PostgresOrigin("CREATE TABLE t(id int PRIMARY KEY)")
      try origin.take()
      let last = try origin.lastNumber
      let watch = LocalWatch(uri: origin.uri, pauseMilliseconds: 0)
      try beside(origin, watch, isLost: true) {
        let apply = try Apply(origin, watch)
        try apply.begin()
        try wait("the stream ends") { try !isRead(origin, apply) }
        try origin.server.restart(.immediate)
        try origin.run("INSERT INTO public.t VALUES (1)")
        let again = try Apply(origin, watch)
        try again.write(2)
        try wait("what both wrote is told") { try known(origin) == 1 }
        try origin.run("INSERT INTO public.t VALUES (3)")
        try wait("the rest comes") { try origin.lines(from: last).count == 2 }
      }
      #expect(try origin.lines(from: last) == ["insert t id=1", "insert t id=3"])
    }

    @Test("whatever programs commit comes once, in its order") func random() throws {
      let runs = isSoak ? 20 : 1
      for _ in 0..<runs {
        let origin = try PostgresOrigin("CREATE TABLE t(id int PRIMARY KEY)")
        try origin.take()
        let last = try origin.lastNumber
        let watch = LocalWatch(uri: origin.uri, pauseMilliseconds: 0)
        var committed: [Int] = []
        try beside(origin, watch) {
          let (apply, program) = (try Apply(origin, watch), try PostgresConnection(origin.uri))
          for id in 1...100 {
            if Int.random(in: 0..<4) == 0 { try apply.askForRoom() }
            try apply.write(id, tells: Int.random(in: 0..<20) > 0, commits: Int.random(in: 0..<10) > 0)
            if Int.random(in: 0..<3) == 0 { Clock.sleep(milliseconds: .random(in: 1...60)) }
            guard Int.random(in: 0..<8) == 0 else { continue }
            // Each other one waits between what it writes and its commit, as one does that waits for a standby.
            try program.execute("BEGIN; INSERT INTO public.t VALUES (\(1000 + id))")
            if id % 2 == 0 { try program.execute("PREPARE TRANSACTION 'of \(id)'") }
            if Int.random(in: 0..<2) == 0 { try apply.write(2000 + id) }
            try program.execute(id % 2 == 0 ? "COMMIT PREPARED 'of \(id)'" : "COMMIT")
            committed.append(1000 + id)
          }
          try wait("what was applied is told") {
            _ = try watch.catchUp(StopSignal())
            return try transactions(of: origin.trailFolder).filter { $0.records > 0 && $0.header.number > last }.count
              == committed.count
          }
        }
        #expect(try origin.lines(from: last) == committed.map { "insert t id=\($0)" })
      }
    }
  }
}
