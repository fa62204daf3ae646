import Capturing
import Changes
import Glibc
import Mapping
import PostgresKit
import Synchronization
import SystemKit
import Trails

/// Answers questions of other nodes about the rows of one source, one question at a time. After each answer, the source
/// rests for as long as the answer took. Nothing in a question becomes SQL.
///
///     let place = TrailPlace(state: state, name: trail)
///     let answers = OriginAnswers(url.comparePlace, patterns: TablePatterns(), trail: place)
package final class OriginAnswers: Sendable {
  /// The highest number of running or waiting questions of one node.
  static let askersMax = 2
  /// The longest time for one answer, in milliseconds. If an answer takes longer, the asking node gets `too large`
  /// instead.
  static let millisecondsMax: Int64 = 15_000
  /// The longest time for which a question waits while other questions are answered or the source rests, in
  /// milliseconds.
  private static let patienceMilliseconds: Int64 = 20_000
  private static let pauseMicroseconds: UInt32 = 5_000
  /// The time after which an unused source is closed, in milliseconds.
  private static let idleMilliseconds: Int64 = 30_000
  /// The maximum number of rows of a slice that one answer covers.
  static let rowsMax = 50_000
  /// The shortest time between two requests to capture to write its progress, in milliseconds. Each such request is a
  /// transaction at the source.
  private static let progressMilliseconds: Int64 = 1_000
  private static let tableBytesMax = 1 << 20

  private struct Turn {
    var isTaken = false
    var askers: [NameKey: Int] = [:]
    /// The monotonic time before which no question is answered, in milliseconds.
    var restsUntil: Int64 = 0
    /// The time of the last attempt to make capture write its progress, in monotonic milliseconds.
    var progressTriedAt: Int64?
    var progressAt: Int64?
  }

  /// The open source. Only the thread that answers the current question uses it.
  private final class Open: @unchecked Sendable {
    var source: OpenSource?
    var usedAt: Int64 = 0
  }

  private let place: CompareEnds.Place
  private let patterns: TablePatterns
  private let trail: TrailPlace
  private let millisecondsMax: Int64
  private let turn = Mutex(Turn())
  private let open = Open()

  /// Creates an object that answers questions about one source.
  ///
  /// - Parameters:
  ///   - patterns: The captured tables.
  ///   - trail: The trail of the source, at this node.
  package convenience init(_ place: CompareEnds.Place, patterns: TablePatterns, trail: TrailPlace) {
    self.init(place, patterns: patterns, trail: trail, millisecondsMax: Self.millisecondsMax)
  }

  init(_ place: CompareEnds.Place, patterns: TablePatterns, trail: TrailPlace, millisecondsMax: Int64) {
    (self.place, self.patterns, self.trail) = (place, patterns, trail)
    self.millisecondsMax = millisecondsMax
  }

  /// Returns the encoded answer to an encoded question.
  ///
  /// - Parameters:
  ///   - asker: The node that asks, or that forwards the question.
  ///   - mayRepair: Returns whether the source may send rows again for this asker now: a whole table if the argument is
  ///     true, else up to 1,000 rows.
  ///   - isOver: Returns whether the asker has stopped waiting for the answer.
  /// - Throws: `busy` if the asker has too many questions or the wait is too long; `usage` if the bytes are no valid
  ///   question; the errors of the database.
  package func answer(
    _ question: [UInt8], of asker: String, mayRepair: (_ isWholeTable: Bool) -> Bool, isOver: () -> Bool
  ) throws -> [UInt8] {
    let asked: OriginQuestion
    do {
      asked = try question.withUnsafeBytes { bytes in
        var reader = ByteReader(bytes)
        return try reader.readQuestion()
      }
    } catch let error as DecodingError { throw Self.refuse("a question cannot be read: \(error)") }
    switch asked {
    case .repair where !mayRepair(false), .copy where !mayRepair(true): throw Self.busy(asker)
    default: break
    }
    if case .progress = asked { return try progress(asker, isOver) }
    try begin(asker, isOver)
    let begun = Clock.monotonicMilliseconds
    defer { end(asker, took: Clock.monotonicMilliseconds - begun) }
    do { return try answer(asked, isOver) } catch let error as DecodingError {
      throw Self.refuse("a question cannot be read: \(error)")
    } catch {
      // A connection that broke, a file that was replaced: the next question opens it again.
      if !(error is CairnError) { open.source = nil }
      throw error
    }
  }

  /// Closes the source if no question has used it for 30 seconds.
  package func closeIdle() {
    let isOurs = turn.withLock { turn in
      guard !turn.isTaken else { return false }
      turn.isTaken = true
      return true
    }
    guard isOurs else { return }
    if Clock.monotonicMilliseconds - open.usedAt > Self.idleMilliseconds { open.source = nil }
    turn.withLock { $0.isTaken = false }
  }

  // MARK: Turns

  /// Makes capture of a PostgreSQL source write its progress into the trail. If several nodes ask for that within a
  /// second, capture is asked once for all of them.
  private func progress(_ asker: String, _ isOver: () -> Bool) throws -> [UInt8] {
    // The journal of an SQLite source shows the progress without a request.
    guard case .postgres = place else { return [OriginAnswer.whole] }
    let askedAt = Clock.monotonicMilliseconds
    // The order of two events in the same millisecond is unknown, so only a later one counts.
    func isDone(_ turn: Turn) -> Bool { turn.progressAt.map { $0 > askedAt } ?? false }
    try begin(asker, isOver) { turn in
      isDone(turn) || Clock.monotonicMilliseconds - (turn.progressTriedAt ?? .min / 2) >= Self.progressMilliseconds
    }
    let begun = Clock.monotonicMilliseconds
    defer { end(asker, took: Clock.monotonicMilliseconds - begun) }
    let isDue = turn.withLock { turn in
      if isDone(turn) { return false }
      turn.progressTriedAt = begun
      return true
    }
    guard isDue else { return [OriginAnswer.whole] }
    do { try opened().ends(trail.name).askForProgress() } catch {
      if !(error is CairnError) { open.source = nil }
      throw error
    }
    turn.withLock { $0.progressAt = begun }
    return [OriginAnswer.whole]
  }

  /// Waits up to 20 seconds until no other question is being answered, the pause since the last answer is over, and
  /// `isDue` returns true.
  ///
  /// - Throws: `busy` if the asker has too many questions, if the wait takes longer than 20 seconds, or if the asker
  ///   has closed its connection.
  private func begin(_ asker: String, _ isOver: () -> Bool, _ isDue: (Turn) -> Bool = { _ in true }) throws {
    let isWelcome = turn.withLock { turn in
      guard turn.askers[NameKey(asker), default: 0] < Self.askersMax else { return false }
      turn.askers[NameKey(asker), default: 0] += 1
      return true
    }
    guard isWelcome else { throw Self.busy(asker) }
    let limit = Clock.monotonicMilliseconds + Self.patienceMilliseconds
    while true {
      let isOurs = turn.withLock { turn in
        guard !turn.isTaken, Clock.monotonicMilliseconds >= turn.restsUntil, isDue(turn) else { return false }
        turn.isTaken = true
        return true
      }
      if isOurs { return }
      guard !isOver(), Clock.monotonicMilliseconds < limit else {
        leave(asker)
        throw Self.busy(asker)
      }
      usleep(Self.pauseMicroseconds)
    }
  }

  private func end(_ asker: String, took milliseconds: Int64) {
    open.usedAt = Clock.monotonicMilliseconds
    turn.withLock { turn in
      turn.isTaken = false
      turn.restsUntil = Clock.monotonicMilliseconds + min(milliseconds, millisecondsMax)
    }
    leave(asker)
  }

  private func leave(_ asker: String) {
    turn.withLock { turn in
      let left = turn.askers[NameKey(asker), default: 1] - 1
      turn.askers[NameKey(asker)] = left > 0 ? left : nil
    }
  }

  private static func busy(_ asker: String) -> CairnError {
    CairnError(
      .busy, "the source is busy with questions about its rows, or '\(asker)' asked for too many rows at once",
      hint: "Cairn asks again by itself", remedy: .retry, context: ["peer": asker])
  }

  static func refuse(_ problem: String) -> CairnError {
    CairnError(.usage, problem, hint: "see docs/reference/protocol.md", remedy: .badInput)
  }

  // MARK: Answers

  private struct Overflow: Error {}

  private func answer(_ question: OriginQuestion, _ isOver: () -> Bool) throws -> [UInt8] {
    // A comparison begins by asking for the tables: a file that was replaced since is opened as it is now.
    if case .tables(from: 0) = question { open.source = nil }
    let source = try opened()
    var out = ByteWriter(capacity: 4096)
    out.append(OriginAnswer.whole)
    let limit = Clock.monotonicMilliseconds + millisecondsMax
    /// Throws if the answer is too large or takes too long, or if the asker has closed the connection.
    ///
    /// - Parameter bytes: The size of the answer so far.
    func check(_ bytes: Int) throws {
      if bytes > OriginQuestion.answerBytesMax { throw Overflow() }
      if isOver() {
        throw CairnError(.busy, "the connection that asked has closed", hint: "compare again", remedy: .retry)
      }
      if Clock.monotonicMilliseconds > limit { throw Overflow() }
    }
    func read() throws {
      switch question {
      case .tables(let from): try append(source.tables(patterns, isFresh: from == 0), from: from, source, to: &out)
      case .standing:
        out.append(try source.ends(trail.name).atSource {}.moment)
        let taken = try source.ends(trail.name).takenAtSource()
        if case .journal(let seq)? = taken {
          out.append(1)
          out.appendZigzag(seq)
        } else {
          out.append(0)
        }
        // Read after `taken`, so the trail includes everything up to `taken`.
        out.appendVarint(try Trail.info(folder: trail.folder).lastTransaction)
      case .progress: break
      case .parts(let asked):
        let (table, reader) = try source.table(asked, patterns)
        switch try reader.parts(of: table) {
        case .behind: out.append(1)
        case .slices: out.append(2)
        case .pages(let parts):
          out.append(3)
          out.appendVarint(UInt64(parts.count))
          for part in parts { out.appendVarint(UInt64(part.pages)) }
        }
      case .scan(let asked, let slice, let naming):
        try scan(source, asked, slice, naming, check, to: &out)
      case .rows(let asked, let keys):
        let (table, reader) = try source.table(asked, patterns)
        try Self.check(keys, table)
        var rows = ByteWriter(capacity: 4096)
        var count = 0
        let (moment, _) = try FlightEnds(source: reader, target: reader, trail: trail.name).atSource {
          let step = reader.keysAtOnce
          for start in stride(from: 0, to: keys.count, by: step) {
            try check(rows.count)
            try reader.rows(table, keys: Array(keys[start..<min(keys.count, start + step)])) { index, row in
              rows.appendVarint(index.map { UInt64(start + $0) + 1 } ?? 0)
              rows.appendImage(row)
              count += 1
              try check(rows.count)
            }
          }
        }
        out.append(moment)
        out.appendVarint(UInt64(count))
        out.append(rows.bytes)
      case .counts(let asked, let hashes):
        let (table, reader) = try source.table(asked, patterns)
        guard zip(hashes, hashes.dropFirst()).allSatisfy(<) else {
          throw Self.refuse("the hashes are not in ascending order")
        }
        let counts = RowCounts(hashes)
        let (moment, _) = try FlightEnds(source: reader, target: reader, trail: trail.name).atSource {
          _ = try reader.scan(table, table.key.isEmpty ? .all : .nullKeys, naming: true) { mark in
            try check(counts.bytes)
            if mark.key.isEmpty { counts.add(mark.keyHash) { reader.currentRow(table) } }
          }
        }
        out.append(moment)
        for hash in hashes {
          out.appendVarint(UInt64(counts[hash]))
          if let row = counts.row(hash) { out.appendImage(row) }
          try check(out.count)
        }
      case .repair(let asked, let keys):
        let (table, _) = try source.table(asked, patterns)
        guard keys.count <= OriginQuestion.keysMax, !table.key.isEmpty else { throw Self.refuse("too many keys") }
        try Self.check(keys, table)
        guard !keys.joined().contains(.null) else { throw Self.refuse("a key holds NULL") }
        try source.ask(RowRequest(namespace: asked.namespace, table: asked.name, keys: keys), for: trail)
      case .copy(let asked):
        _ = try source.table(asked, patterns)
        try source.askForCopy(of: asked.name, namespace: asked.namespace, for: trail)
      }
    }
    do { try source.within(milliseconds: millisecondsMax, read) } catch is Overflow {
      return [OriginAnswer.tooLarge]
    } catch let error where OpenSource.isTimeout(error) && Clock.monotonicMilliseconds >= limit {
      // A statement that finds no row asks for no limit.
      return [OriginAnswer.tooLarge]
    }
    return Array(out.bytes)
  }

  private func opened() throws -> OpenSource {
    if let source = open.source { return source }
    let source = try OpenSource(place, statementMilliseconds: millisecondsMax)
    open.source = source
    return source
  }

  private func append(_ tables: [OriginTable], from: Int, _ source: OpenSource, to out: inout ByteWriter) throws {
    var list = ByteWriter(capacity: 4096)
    var count = 0
    for table in tables.dropFirst(from) {
      guard list.count < Self.tableBytesMax else { break }
      list.append(table)
      count += 1
    }
    if list.count > OriginQuestion.answerBytesMax { throw Overflow() }
    out.append(source.database.engine.rawValue)
    out.append((source.database.sortsByBytes ? 1 : 0) | (from + count >= tables.count ? 2 : 0))
    out.appendVarint(UInt64(count))
    out.append(list.bytes)
  }

  private func scan(
    _ source: OpenSource, _ asked: QuestionedTable, _ slice: Slice, _ naming: Bool,
    _ check: (Int) throws -> Void, to out: inout ByteWriter
  ) throws {
    let (table, reader) = try source.table(asked, patterns)
    var slice = try Self.checked(slice, table, reader)
    while true {
      var marks = ByteWriter(capacity: 4096)
      var sum: UInt64 = 0
      do {
        let end = try reader.scan(table, slice, naming: naming) { mark in
          sum &+= mark.rowHash
          try check(marks.count)
          guard naming else { return }
          marks.appendFixed(mark.keyHash)
          marks.appendFixed(mark.rowHash)
          marks.appendVarint(UInt64(mark.bytes))
          marks.appendCounted(mark.key)
        }
        out.appendVarint(UInt64(end.rows))
        out.appendVarint(UInt64(end.bytes))
        out.append(key: end.last)
        if naming { out.append(marks.bytes) } else { out.appendFixed(sum) }
        return
      } catch let error as Overflow {
        guard marks.count > 0, let shorter = slice.shorter else { throw error }
        slice = shorter
      }
    }
  }
}

extension Slice {
  /// A slice with the same start and at most a quarter of the row limit; nil if the limit is one row or missing.
  fileprivate var shorter: Slice? {
    switch self {
    case .range(let after, let through, let limit?) where limit > 1:
      .range(after: after, through: through, limit: max(1, limit / 4))
    case .behind(let after, let limit) where limit > 1: .behind(after, limit: max(1, limit / 4))
    default: nil
    }
  }
}
