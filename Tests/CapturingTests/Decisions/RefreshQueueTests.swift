import Changes
import PostgresKit
import Testing

@testable import Capturing

@Suite struct RefreshQueueTests {
  private let a = Shapes.table(1, "a", epoch: 1, refresh: .firstCopy)
  private let b = Shapes.table(2, "b", epoch: 2, refresh: .lostChanges)

  private func chunk(
    _ table: PostgresRegistry.Table, _ part: PostgresChunk.Part = .next, through: [String]? = nil
  ) -> PostgresChunk {
    PostgresChunk(table: table, part: part, snapshot: .empty, stored: nil, end: LSN(1), through: through)
  }

  private func state(_ table: PostgresRegistry.Table, cursor: [String]? = nil) -> PostgresPosition.RefreshState {
    .init(relation: table.relation, epoch: table.epoch, rows: 0, cursor: cursor, isDone: false)
  }

  private func captured(_ table: PostgresRegistry.Table) throws -> Captured {
    try #require(Shapes.known([table]).form(of: Shapes.relation(table), isBeingCopied: true))
  }

  private func request(_ table: String, _ keys: [[String]], isWhole: Bool = false) -> RequestMessage {
    RequestMessage(slot: "s", namespace: "public", table: table, isWhole: isWhole, keys: keys)
  }

  private func next(_ queue: inout RefreshQueue, _ tables: KnownTables, now: Int64 = 0) -> String {
    switch queue.next(tables, now: now) {
    case .chunk(let table)?: table.schema.name
    case .row(let table, let key)?: "\(table.schema.name) \(key.joined(separator: ","))"
    case nil: ""
    }
  }

  // MARK: Chunks

  @Test func `tables are read one after the other, in the order in which they came`() {
    var queue = RefreshQueue(nil, PostgresRequests())
    var tables = Shapes.known([b, a])
    #expect(tables.waitingCount() > 0 && queue.isIdle && next(&queue, tables) == "a")
    queue.placed(state(b))
    #expect(next(&queue, tables) == "b", "a table that has begun goes on")
    var done = b
    done.refresh = nil
    tables.set(done)
    queue.restart(b.relation)
    #expect(next(&queue, tables) == "a")
    tables = Shapes.known([done])
    #expect(tables.waitingCount() == 0 && next(&queue, tables).isEmpty)
  }

  @Test func `a table that must be published first is not read`() {
    var queue = RefreshQueue(nil, PostgresRequests())
    var unpublished = a
    unpublished.copyNotBefore = PostgresRegistry.Table.unpublished
    #expect(next(&queue, Shapes.known([unpublished, b])) == "b")
  }

  @Test func `chunks move the cursor, and the last one completes the table`() {
    var queue = RefreshQueue(nil, PostgresRequests())
    queue.placed(state(a))
    #expect(queue.end(chunk(a, through: ["5"]), isRaced: false) == .goesOn)
    #expect(queue.current?.cursor == ["5"])
    #expect(queue.end(chunk(a, through: ["9"]), isRaced: true) == .goesOn)
    #expect(queue.current?.cursor == ["5"], "the same range is read again")
    var done = state(a, cursor: ["5"])
    done.isDone = true
    #expect(queue.end(chunk(a), isRaced: false) == .isComplete(done))
  }

  @Test func `a raced chunk of a table without key begins the table again`() {
    let plain = Shapes.table(3, "p", isKeyed: false, refresh: .firstCopy)
    var queue = RefreshQueue(nil, PostgresRequests())
    queue.placed(state(plain))
    #expect(queue.end(chunk(plain), isRaced: true) == .beginsAgain && queue.current == nil)
    #expect(queue.end(chunk(a), isRaced: false) == .goesOn, "a chunk of another table does not count")
  }

  @Test func `a moved row is read before the table is complete`() throws {
    var queue = RefreshQueue(nil, PostgresRequests())
    let tables = Shapes.known([a])
    let form = try captured(a)
    #expect(queue.move(["7"], of: form) == .ignored, "the copy has not begun")
    queue.placed(state(a, cursor: ["9"]))
    #expect(queue.move(["7"], of: form) == .queued && queue.move(["7"], of: form) == .queued)
    #expect(queue.move(["7", "8"], of: form) == .ignored, "no key of the table")
    #expect(queue.record()?.wantsRows == true)
    #expect(queue.end(chunk(a), isRaced: false) == .goesOn)
    #expect(next(&queue, tables) == "a 7")
    #expect(queue.end(chunk(a, .row(["7"])), isRaced: true) == .goesOn && next(&queue, tables) == "a 7")
    guard case .isComplete = queue.end(chunk(a, .row(["7"])), isRaced: false) else {
      Issue.record("the last moved row completes the table")
      return
    }
    #expect(queue.record()?.wantsRows == false)
  }

  @Test func `moved rows whose keys only look alike are two rows`() throws {
    var queue = RefreshQueue(nil, PostgresRequests())
    let (tables, form) = (Shapes.known([a]), try captured(a))
    queue.placed(state(a, cursor: ["z"]))
    _ = queue.move(["\u{e9}"], of: form)
    _ = queue.move(["e\u{301}"], of: form)
    #expect(next(&queue, tables).utf8.count == "a \u{e9}".utf8.count)
    _ = queue.end(chunk(a, .row(["\u{e9}"])), isRaced: false)
    #expect(next(&queue, tables).utf8.count == "a e\u{301}".utf8.count, "the other one is read too")
  }

  @Test func `a copy that cannot go on begins again with a connection`() throws {
    let plain = Shapes.table(3, "p", isKeyed: false, refresh: .firstCopy)
    let tables = Shapes.known([a, plain])
    var queue = RefreshQueue(nil, PostgresRequests())
    queue.placed(state(a, cursor: ["9"]))
    queue.disconnect(tables)
    #expect(queue.current?.cursor == ["9"], "a keyed table goes on at its cursor")
    let form = try captured(a)
    #expect(queue.move(["7"], of: form) == .queued)
    _ = queue.record()
    queue.disconnect(tables)
    #expect(queue.current == nil, "moved rows are unknown")
    queue.placed(state(plain))
    queue.disconnect(tables)
    #expect(queue.current == nil)
  }

  @Test func `a copy that cannot go on begins again with a start`() {
    func restarted(_ change: (inout PostgresPosition.RefreshState) -> Void, _ table: PostgresRegistry.Table? = nil)
      -> Bool
    {
      var stored = state(a, cursor: ["9"])
      change(&stored)
      var queue = RefreshQueue(stored, PostgresRequests())
      queue.restart(Shapes.known([table ?? a]))
      return queue.current == nil
    }
    #expect(!restarted { _ in })
    #expect(restarted { $0.isDone = true } && restarted { $0.wantsRows = true } && restarted { $0.epoch = 5 })
    #expect(restarted { $0.relation = 77 })
    #expect(restarted({ _ in }, Shapes.table(1, "a", isKeyed: false, epoch: 1, refresh: .firstCopy)))
    #expect(restarted({ _ in }, Shapes.table(1, "a", epoch: 1)))
  }

  @Test func `a table in another shape goes on, unless it begins again`() {
    var queue = RefreshQueue(state(a, cursor: ["9"]), PostgresRequests())
    queue.follow(b.relation, epoch: 8)
    #expect(queue.current?.epoch == 1)
    queue.follow(a.relation, epoch: 8)
    #expect(queue.current?.epoch == 8)
    queue.restart(b.relation)
    #expect(queue.isCurrent(a.relation))
    queue.restart(a.relation)
    #expect(queue.current == nil)
  }

  @Test func `a locked table waits longer and longer, and is reported once`() {
    var queue = RefreshQueue(nil, PostgresRequests())
    #expect(queue.waitForSession(of: 1, now: 1000) == (300, false))
    #expect(queue.waitForSession(of: 1, now: 4000) == (750, false))
    #expect(queue.waitForSession(of: 1, now: 5000) == (1000, true))
    #expect(queue.waitForSession(of: 1, now: 5000) == (1000, true), "until the holder is found")
    queue.noteReport(of: 1)
    #expect(queue.waitForSession(of: 1, now: 61_000) == (5000, false))
    #expect(queue.waitForSession(of: 2, now: 61_000) == (300, false), "another table")
    queue.placed(state(b))
    #expect(queue.waitForSession(of: 2, now: 70_000) == (300, false), "a chunk came through in between")
  }

  @Test func `a table that cannot be read holds up no other`() {
    var queue = RefreshQueue(nil, PostgresRequests())
    let tables = Shapes.known([a, b])
    queue.putOff(a.relation, milliseconds: 300, now: 1000)
    #expect(next(&queue, tables, now: 1299) == "b" && next(&queue, tables, now: 1300) == "a")
    queue.placed(state(a))
    _ = queue.waitForSession(of: a.relation, now: 2000)
    #expect(next(&queue, tables, now: 2000).isEmpty, "its chunks in the trail are worth three seconds")
    _ = queue.waitForSession(of: a.relation, now: 5001)
    #expect(next(&queue, tables, now: 5002) == "b" && next(&queue, tables, now: 9000) == "a")
  }

  // MARK: Requested rows

  private func read(_ queue: inout RefreshQueue, _ tables: inout KnownTables) -> (String, RefreshQueue.Answer) {
    let answer = queue.nextRequested(&tables, now: 0)
    switch answer.step {
    case .nothing: return ("", answer)
    case .endRows(let relation): return ("end \(relation)", answer)
    case .read(let table, let keys):
      return ("\(table.schema.name) \(keys.map { $0.joined(separator: ",") }.sorted())", answer)
    }
  }

  @Test func `requested rows are read by their keys, and end with the last`() {
    let table = Shapes.table(1, "a", epoch: 1)
    var tables = Shapes.known([table])
    var queue = RefreshQueue(nil, PostgresRequests())
    #expect(queue.add(request("a", [["1"], ["2"]]), tables) == table)
    #expect(queue.beginRows(of: 1) && !queue.beginRows(of: 1))
    #expect(read(&queue, &tables).0 == #"a ["1", "2"]"#)
    #expect(!queue.remove([["1"]], of: table) && queue.remove([["2"]], of: table))
    #expect(queue.endRows(of: 1, tables) == table)
    queue.endedRows(of: 1)
    #expect(queue.beginRows(of: 1) && queue.isIdle)
  }

  @Test func `rows of a table that is copied anyway are not read`() {
    var tables = Shapes.known([a])
    var queue = RefreshQueue(nil, PostgresRequests())
    #expect(queue.add(request("a", [["1"]]), tables) == nil)
    let (text, answer) = read(&queue, &tables)
    #expect(text.isEmpty && answer.hasDropped && answer.notices.isEmpty && queue.requests.isEmpty)
  }

  @Test func `rows of a table that is not captured are refused with a notice`() {
    var tables = Shapes.known([a])
    var queue = RefreshQueue(nil, PostgresRequests())
    #expect(queue.add(request("gone", [["1"]]), tables) == nil)
    #expect(queue.add(request("lost", [], isWhole: true), tables) == nil)
    #expect(queue.beginRequestedCopies(&tables).count == 1)
    queue.forgetRequestedCopies()
    #expect(read(&queue, &tables).1.notices.first?.contains("public.gone") == true && queue.requests.isEmpty)
  }

  @Test func `keys that the table has no more are dropped, and its refresh ends`() {
    var tables = Shapes.known([Shapes.table(1, "a", epoch: 1)])
    var queue = RefreshQueue(nil, PostgresRequests())
    _ = queue.add(request("a", [["1", "2"]]), tables)
    let (text, answer) = read(&queue, &tables)
    #expect(text == "end 1" && answer.hasDropped && answer.notices.count == 1)
    #expect(read(&queue, &tables).0.isEmpty)
  }

  @Test func `rows of a table without key become a copy of the table`() {
    var tables = Shapes.known([Shapes.table(1, "p", isKeyed: false, epoch: 1)])
    var queue = RefreshQueue(nil, PostgresRequests())
    #expect(queue.add(request("p", [["1"]]), tables) == nil)
    #expect(read(&queue, &tables).0.isEmpty && tables[1]?.refresh == .asked && queue.requests.isEmpty)
  }

  @Test func `a table that is asked for whole begins again, and lets changes pass meanwhile`() {
    let table = Shapes.table(1, "a", epoch: 1)
    var tables = Shapes.known([table])
    var queue = RefreshQueue(nil, PostgresRequests())
    #expect(queue.add(request("a", [], isWhole: true), tables) == table, "changes from here on may lack rows")
    #expect(queue.endRows(of: 1, tables) == nil, "the copy brings the rows")
    #expect(queue.beginRequestedCopies(&tables).isEmpty && tables[1]?.refresh == .asked)
    #expect(queue.awaited(tables).map(\.relation) == [1])
    queue.forgetRequestedCopies()
    queue.placed(state(a))
    #expect(queue.requests.isEmpty && queue.awaited(tables).isEmpty)
  }

  @Test func `the begin of a refresh is undone with its transaction`() {
    var queue = RefreshQueue(nil, PostgresRequests())
    #expect(queue.beginRows(of: 1) == true)
    queue.settle()
    #expect(queue.beginRows(of: 2) == true)
    queue.abandon()
    #expect(!queue.beginRows(of: 1) && queue.beginRows(of: 2))
  }

  @Test func `a moved row of a table whose rows are sent again is requested`() throws {
    let table = Shapes.table(1, "a", epoch: 1)
    var queue = RefreshQueue(nil, PostgresRequests())
    let form = try captured(table)
    #expect(queue.beginRows(of: 1) && queue.move(["7"], of: form) == .requested)
    #expect(!queue.requests.isEmpty)
  }

  /// The model: a source whose rows move by updates without their large values, while chunks are read. A row that is
  /// moved is right in the trail only after a chunk or a moved row brought it.
  @Test(arguments: 0..<60) func `a complete table has every value of every row`(_ seed: Int) throws {
    var random = SeededRandom(UInt64(seed))
    let tables = Shapes.known([a])
    let form = try captured(a)
    var queue = RefreshQueue(nil, PostgresRequests())
    var rows = Set((0..<Int.random(in: 1...12, using: &random)).map { $0 * 10 })
    var sent: [Int: Bool] = [:]
    for _ in 0..<10_000 {
      // The application.
      if Int.random(in: 0..<8, using: &random) == 0, let row = rows.randomElement(using: &random) {
        let moved = Int.random(in: 0..<130, using: &random)
        if !rows.contains(moved) {
          rows.remove(row)
          rows.insert(moved)
          if queue.isCurrent(a.relation) {
            sent[row] = nil
            // The stream has the key, not the large value.
            sent[moved] = false
            #expect(queue.move([String(moved)], of: form) == .queued)
          }
        }
      }
      guard Bool.random(using: &random), let part = queue.next(tables, now: 0) else { continue }
      let isRaced = Int.random(in: 0..<4, using: &random) == 0
      var end: RefreshQueue.ChunkEnd
      switch part {
      case .row(_, let key):
        if !isRaced, let number = key.first.flatMap({ Int($0) }) { sent[number] = rows.contains(number) ? true : nil }
        end = queue.end(chunk(a, .row(key)), isRaced: isRaced)
      case .chunk:
        if queue.current == nil { queue.placed(state(a)) }
        let after = queue.current?.cursor?.first.flatMap { Int($0) } ?? -1
        let range = queue.current?.isDone == true ? [] : rows.filter { $0 > after }.sorted().prefix(2)
        let isLast = queue.current?.isDone == true || range.count < 2
        if !isRaced {
          sent = sent.filter { $0.key <= after || (!isLast && $0.key > range.last ?? 0) }
          for row in range { sent[row] = true }
        }
        end = queue.end(chunk(a, through: isLast ? nil : range.last.map { [String($0)] }), isRaced: isRaced)
      }
      if case .isComplete = end {
        #expect(Set(sent.keys) == rows && !sent.values.contains(false), "\(sent) of \(rows)")
        return
      }
    }
    Issue.record("the table is never complete")
  }
}
