import Changes
import Mapping
import PostgresKit
import SQLiteKit
import Synchronization
import SystemKit

/// The addresses of the two compared databases. Each thread opens its own connections.
///
///     let ends = CompareEnds(source: source.comparePlace, target: target.comparePlace)
package struct CompareEnds: Sendable {
  package enum Place: Sendable {
    case sqlite(path: String)
    case postgres(uri: String)
    case origin(OriginSource, Engine)
  }

  package let source: Place
  package let target: Place
  /// The random seed of the hashes, so that an attacker cannot prepare rows with equal hashes.
  let seed: UInt64

  package init(source: Place, target: Place, seed: UInt64 = .random(in: .min ... .max)) {
    (self.source, self.target, self.seed) = (source, target, seed)
  }

  func reader(_ side: CanonicalColumn.Side) throws -> any RowReader {
    switch side == .source ? source : target {
    case .sqlite(let path):
      return SQLiteRowReader(try OwnTables.openChecked(path, isReader: true), side, seed: seed)
    case .postgres(let uri):
      return try PostgresRowReader(PostgresConnection(uri, application: "cairn compare"), side, seed: seed)
    case .origin(let origin, let engine): return OriginRowReader(origin, engine, seed: seed)
    }
  }

  var isAfar: Bool { if case .origin = source { true } else { false } }
}

/// The progress of a comparison. Other threads may read it.
///
///     let watch = CompareWatch(stop: stop, rate: RateLimit(bytesPerSecond: 1 << 20))
package final class CompareWatch: Sendable {
  package struct Snapshot: Sendable {
    package var table = ""
    package var tablesDone = 0
    package var tables = 0
    /// The number of source rows read so far in the table that is being compared.
    package var sourceRows = 0
    package var targetRows = 0
    package var rows = 0
    package var bytes = 0
    package var suspects = 0
  }
  private let state = Mutex(Snapshot())
  package let stop: StopSignal
  package let rate: RateLimit

  package init(stop: StopSignal = StopSignal(), rate: RateLimit = RateLimit(bytesPerSecond: nil)) {
    (self.stop, self.rate) = (stop, rate)
  }

  package var snapshot: Snapshot { state.withLock { $0 } }
  func update(_ body: (inout Snapshot) -> Void) { state.withLock { body(&$0) } }

  func count(_ side: CanonicalColumn.Side, rows: Int, bytes: Int) {
    state.withLock { state in
      // Another node may send any numbers, so the sums must not trap.
      if side == .source { state.sourceRows &+= rows } else { state.targetRows &+= rows }
      state.rows &+= rows
      state.bytes &+= bytes
    }
  }
}
