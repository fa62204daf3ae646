import Changes
import Mapping
import SQLiteKit

// Rows that come as copies.
extension SQLiteReplay {
  func apply(_ refresh: Refresh, _ table: TargetTable) throws {
    let name = table.schema.name
    switch refresh.event {
    // Of a copy that was given up for the one that is awaited.
    case _ where table.state.isAwaited && !refresh.isStart(behind: options.askedBehind, in: number + 1): break
    case .start(let reason, let method, let rows):
      var known = target.tables[key(name)] ?? .init()
      if reason == .firstCopy, !known.isCreated { known.existing = options.existing }
      if reason == .asked { known.existing = .overwrite }
      (known.refreshing, known.isAwaited) = (method, false)
      known.source = table.state.source
      try save(name, known)
      guard let table = try self.table(refresh.schemaID) else { return }
      if method == .whole {
        if known.existing != .overwrite, try database.integer("SELECT 1 FROM \(name.quotedName) LIMIT 1") != nil {
          throw CairnError(
            .targetDiffers,
            "table \(name) has no key, so its rows cannot be told apart to \(known.existing.rawValue) them",
            hint: "empty it at the target, or use --existing overwrite", context: ["table": name])
        }
        try table.deleteAll()
      }
      // Ranges of keys that sort in another way here cannot be emptied one by one.
      if method == .byKey, known.existing == .overwrite, !table.sortsAsSource { try table.deleteAll() }
      (copying, copied, estimated) = (table, 0, rows)
    case .chunk(let range):
      if copying?.schema != table.schema { (copying, copied, estimated) = (table, 0, 0) }
      switch range {
      case .row: try table.delete(range)
      case .some: break
      case .nullKeys, .keys, .unkeyed:
        if table.state.existing == .overwrite, table.sortsAsSource { try table.delete(range) }
      }
    case .end:
      var known = target.tables[key(name)] ?? .init()
      if known.refreshing != .rows { tablesCopied += 1 }
      known.refreshing = nil
      try save(name, known)
      copying = nil
    }
  }
}
