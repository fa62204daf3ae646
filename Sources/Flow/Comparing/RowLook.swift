import Changes
import Mapping
import PostgresKit

/// Reads single rows of source and target, by the keys of differing rows.
final class RowLook {
  let table: ComparedTable
  let source: any RowReader
  let target: any RowReader
  private let seed: UInt64

  init(_ table: ComparedTable, source: any RowReader, target: any RowReader, seed: UInt64) {
    (self.table, self.source, self.target, self.seed) = (table, source, target, seed)
  }

  /// Returns the rows of one database with the keys of `suspects`, by the hash of the key. The target may have several
  /// rows with one key.
  func rows(_ side: CanonicalColumn.Side, _ suspects: [Suspect]) throws -> [UInt64: [[Value]]] {
    var wanted: Set<UInt64> = []
    var keys: [(hash: UInt64, key: [Value])] = []
    for suspect in suspects where wanted.insert(suspect.hash).inserted {
      if let key = side == .source ? suspect.sourceKey : suspect.targetKey {
        keys.append((suspect.hash, key))
      } else if side == .source, let key = suspect.targetKey {
        keys += table.sourceKeys(key).map { (suspect.hash, $0) }
      } else if let key = suspect.sourceKey, let there = try? table.targetKey(key) {
        // A key that the target cannot hold does not exist there.
        keys.append((suspect.hash, there))
      }
    }
    var hasher = RowHasher(table, side, seed: seed)
    var found: [UInt64: [[Value]]] = [:]
    let reader = side == .source ? source : target
    let step = reader.keysAtOnce
    for start in stride(from: 0, to: keys.count, by: step) {
      let part = keys[start..<min(keys.count, start + step)]
      try reader.rows(table, keys: part.map(\.key)) { index, row in
        // A row may be found by several keys, or by a key that only the database considers equal: count it for its own
        // key only.
        guard let hash = hasher.keyHash(of: row), wanted.contains(hash),
          index.map({ part[start + $0].hash == hash }) ?? true
        else { return }
        found[hash, default: []].append(row)
      }
    }
    return found
  }

  /// Counts the rows of one database by the hash of all their values.
  ///
  /// - Parameter hashes: The hashes to count, in ascending order.
  func counts(_ side: CanonicalColumn.Side, _ hashes: [UInt64]) throws -> RowCounts {
    let reader = side == .source ? source : target
    let counts = RowCounts(hashes)
    try reader.count(table, into: counts)
    return counts
  }
}
