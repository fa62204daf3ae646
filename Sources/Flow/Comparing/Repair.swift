import Capturing
import Changes
import Mapping
import PostgresKit
import SQLiteKit
import SystemKit
import Trails

/// Makes the source send differing rows again through the trail, then compares these rows again.
final class Repair {
  private static let batchRows = 500
  private static let patienceMilliseconds: Int64 = 120_000

  private let ends: CompareEnds
  private let flight: SettlingByTrail
  private let stop: StopSignal
  private let trail: TrailID

  // The state of the current table.
  private var asked = SuspectList()
  private var copies = false

  init(_ ends: CompareEnds, _ flight: SettlingByTrail, stop: StopSignal) throws {
    (self.ends, self.flight, self.stop) = (ends, flight, stop)
    trail = try Trail.info(folder: flight.follower.place.folder).id
  }

  func ask(_ table: ComparedTable, _ differences: [Difference]) throws {
    var source = RowHasher(table, .source, seed: ends.seed)
    var target = RowHasher(table, .target, seed: ends.seed)
    var keys: [[Value]] = []
    var needsCopy = false
    for difference in differences {
      let here = difference.source
      guard let row = here ?? difference.target else { continue }
      let key = table.key.map { row[$0] }
      guard !key.isEmpty, !key.contains(.null) else {
        needsCopy = true
        continue
      }
      guard !copies, let hash = here != nil ? source.keyHash(of: row) : target.keyHash(of: row) else { continue }
      asked.append(
        Suspect(
          hash: hash, sourceKey: here == nil ? nil : key,
          targetKey: difference.target.map { row in table.key.map { row[$0] } }
        ))
      let own = here == nil ? table.sourceKeys(key) : [key]
      // The source's type cannot hold this value, so the row cannot be requested; a copy removes it.
      if own.isEmpty { needsCopy = true }
      keys += own
    }
    if needsCopy || asked.isTooLarge {
      guard !copies else { return }
      copies = true
      asked = SuspectList()
      return try askForCopy(table)
    }
    guard !copies, !keys.isEmpty else { return }
    try ask(
      RowRequest(namespace: table.source.schema.namespace, table: table.source.schema.name, keys: keys), of: table)
  }

  private func journal(_ path: String) throws -> Journal {
    Journal(try OwnTables.openChecked(path, isReader: false))
  }

  private func ask(_ request: RowRequest, of table: ComparedTable) throws {
    switch ends.source {
    case .origin(let origin, _):
      for start in stride(from: 0, to: request.keys.count, by: OriginQuestion.keysMax) {
        let keys = Array(request.keys[start..<min(request.keys.count, start + OriginQuestion.keysMax)])
        try origin.ask(.repair(QuestionedTable(table, seed: ends.seed), keys: keys)) { _ in }
      }
    case .sqlite(let path): try journal(path).ask(request)
    case .postgres(let uri): try PostgresSource.ask(request, on: PostgresConnection(uri), trail: trail)
    }
  }

  private func askForCopy(_ table: ComparedTable) throws {
    let schema = table.source.schema
    switch ends.source {
    case .origin(let origin, _): try origin.ask(.copy(QuestionedTable(table, seed: ends.seed))) { _ in }
    case .sqlite(let path): try journal(path).askForCopy(of: schema.name)
    case .postgres(let uri):
      try PostgresSource.askForCopy(
        of: schema.name, namespace: schema.namespace, on: PostgresConnection(uri), trail: trail)
    }
  }

  /// Compares the rows that the source was asked to send again, until they are equal at both ends, for up to two
  /// minutes. The time of a running refresh does not count. Returns the number of rows that still differ. Returns
  /// `Int.max` if the replication or the comparison was stopped.
  ///
  /// - Parameter recount: Compares the whole table again, and returns the number of differences.
  func finish(_ look: RowLook, _ verdict: RowVerdict, recount: () throws -> Int) throws -> Int {
    defer {
      asked = SuspectList()
      copies = false
    }
    var limit = Clock.monotonicMilliseconds + Self.patienceMilliseconds
    var pause: Int32 = copies ? 1000 : 50
    while flight.follower.isRunning {
      if copies, try flight.ends.isCopied(look.table) {
        limit = Clock.monotonicMilliseconds + Self.patienceMilliseconds
      } else {
        let left = copies ? try recount() : try judge(look, verdict)
        if left == 0 || Clock.monotonicMilliseconds > limit { return left }
      }
      if stop.wait(milliseconds: pause) { break }
      pause = min(pause * 2, 2000)
    }
    return .max
  }

  private func judge(_ look: RowLook, _ verdict: RowVerdict) throws -> Int {
    var left = 0
    for start in stride(from: 0, to: asked.count, by: Self.batchRows) where !stop.isSet {
      let batch = (start..<min(asked.count, start + Self.batchRows)).map { asked[$0] }
      let part = try flight.settle(look, verdict, keyed: batch)
      left += part.differences.reduce(part.inFlight) { $0 + $1.times }
    }
    return left
  }
}
