import Capturing
import Changes
import Mapping
import PostgresKit
import SQLiteKit
import SystemKit
import Trails

/// Has the source send the rows that a comparison found to differ once more, through the trail, and looks at them again.
final class Repair {
  /// Of one table; where more rows differ, it is copied as a whole.
  private static let rowsMax = 100_000
  private static let patienceMilliseconds: Int64 = 120_000

  private let ends: CompareEnds
  private let flight: SettlingByTrail
  private let stop: StopSignal
  private let trail: TrailID

  // Of the table that is being compared.
  private var asked: [Suspect] = []
  private var askedWhole: [Suspect] = []
  private var copies = false

  init(_ ends: CompareEnds, _ flight: SettlingByTrail, stop: StopSignal) throws {
    (self.ends, self.flight, self.stop) = (ends, flight, stop)
    trail = try Trail.info(folder: flight.follower.place.folder).id
  }

  /// Asks the source for the rows of these differences.
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
        let hash = here != nil ? source.rowHash(of: row) : target.rowHash(of: row)
        askedWhole.append(Suspect(hash: hash))
        continue
      }
      guard let hash = here != nil ? source.keyHash(of: row) : target.keyHash(of: row) else { continue }
      asked.append(
        Suspect(
          hash: hash, sourceKey: here == nil ? nil : key,
          targetKey: difference.target.map { row in table.key.map { row[$0] } }
        ))
      let own = here == nil ? table.sourceKeys(key) : [key]
      // No value of the source's type: nobody can ask for such a row, but a copy leaves it out.
      if own.isEmpty { needsCopy = true }
      keys += own
    }
    if needsCopy || !askedWhole.isEmpty || asked.count > Self.rowsMax {
      guard !copies else { return }
      copies = true
      return try askForCopy(table)
    }
    guard !copies, !keys.isEmpty else { return }
    try ask(RowRequest(namespace: table.source.schema.namespace, table: table.source.schema.name, keys: keys))
  }

  private func ask(_ request: RowRequest) throws {
    switch ends.source {
    case .sqlite(let path): try Journal(Database(path: path)).ask(request)
    case .postgres(let uri): try PostgresSource.ask(request, on: PostgresConnection(uri), trail: trail)
    }
  }

  private func askForCopy(_ table: ComparedTable) throws {
    let schema = table.source.schema
    switch ends.source {
    case .sqlite(let path): try Journal(Database(path: path)).askForCopy(of: schema.name)
    case .postgres(let uri):
      try PostgresSource.askForCopy(
        of: schema.name, namespace: schema.namespace, on: PostgresConnection(uri), trail: trail)
    }
  }

  /// Waits until the rows went through trail and target; gives what differs still. Then the next table may come.
  func finish(_ look: RowLook, _ verdict: RowVerdict) throws -> Settlement {
    defer {
      (asked, askedWhole) = ([], [])
      copies = false
    }
    guard flight.follower.isRunning else {
      return Settlement(inFlight: asked.count + askedWhole.count)
    }
    let limit = Clock.monotonicMilliseconds + Self.patienceMilliseconds
    var pause: Int32 = 50
    while true {
      let left = try judge(look, verdict)
      let isLate = Clock.monotonicMilliseconds > limit || !flight.follower.isRunning
      if left.differences.isEmpty && left.inFlight == 0 || isLate { return left }
      if stop.wait(milliseconds: pause) { return left }
      pause = min(pause * 2, 2000)
    }
  }

  private func judge(_ look: RowLook, _ verdict: RowVerdict) throws -> Settlement {
    var all = Settlement()
    for start in stride(from: 0, to: asked.count, by: 500) where !stop.isSet {
      let part = try flight.settle(look, verdict, keyed: Array(asked[start..<min(asked.count, start + 500)]))
      all.differences += part.differences
      all.inFlight += part.inFlight
    }
    if !askedWhole.isEmpty {
      let part = try flight.settle(look, verdict, whole: askedWhole)
      all.differences += part.differences
      all.inFlight += part.inFlight
    }
    return all
  }
}
