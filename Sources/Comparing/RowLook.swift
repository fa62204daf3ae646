import Changes
import Mapping
import PostgresKit

/// Reads single rows at both ends, by the keys of suspects.
final class RowLook {
  let table: ComparedTable
  let source: any RowReader
  let target: any RowReader
  private let seed: UInt64

  init(_ table: ComparedTable, source: any RowReader, target: any RowReader, seed: UInt64) {
    (self.table, self.source, self.target, self.seed) = (table, source, target, seed)
  }

  /// The rows of suspects with a key that are there at an end, by the hash of the key. A target that does not enforce
  /// the source's key may have several of one.
  func rows(_ side: CanonicalColumn.Side, _ suspects: [Suspect]) throws -> [UInt64: [[Value]]] {
    var wanted: Set<UInt64> = []
    var keys: [(hash: UInt64, key: [Value])] = []
    for suspect in suspects where wanted.insert(suspect.hash).inserted {
      if let key = side == .source ? suspect.sourceKey : suspect.targetKey {
        keys.append((suspect.hash, key))
      } else if side == .source, let key = suspect.targetKey {
        keys += table.sourceKeys(key).map { (suspect.hash, $0) }
      } else if let key = suspect.sourceKey, let there = try? table.targetKey(key) {
        // A key that has no place at the target is not there.
        keys.append((suspect.hash, there))
      }
    }
    var hasher = RowHasher(table, side, seed: seed)
    var found: [UInt64: [[Value]]] = [:]
    let reader = side == .source ? source : target
    // SQLite looks for one key after the other, and may find one row by several.
    let step = reader is SQLiteRowReader ? 1 : 200
    for start in stride(from: 0, to: keys.count, by: step) {
      let part = keys[start..<min(keys.count, start + step)]
      try reader.rows(table, keys: part.map(\.key)) { row in
        // Keys that only the end itself takes for equal are of other rows.
        guard let hash = self.keyHash(row, &hasher), wanted.contains(hash), step > 1 || hash == part.first?.hash
        else { return }
        found[hash, default: []].append(row)
      }
    }
    return found
  }

  private func keyHash(_ row: [Value], _ hasher: inout RowHasher) -> UInt64? { hasher.keyHash(of: row) }

  /// How often the rows with these hashes of all their values are there, and their values.
  func counts(_ side: CanonicalColumn.Side, _ hashes: Set<UInt64>) throws -> [UInt64: (count: Int, row: [Value])] {
    let reader = side == .source ? source : target
    var found: [UInt64: (count: Int, row: [Value])] = [:]
    _ = try reader.scan(table, table.key.isEmpty ? .all : .nullKeys, naming: true) { mark in
      guard hashes.contains(mark.keyHash), mark.key.isEmpty else { return }
      if let known = found[mark.keyHash] {
        found[mark.keyHash] = (known.count + 1, known.row)
      } else {
        found[mark.keyHash] = (1, reader.currentRow(table))
      }
    }
    return found
  }
}
