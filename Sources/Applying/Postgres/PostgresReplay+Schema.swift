import Changes
import Mapping
import PostgresKit

// Tables that come, go and change.
extension PostgresReplay {
  func apply(_ ddl: DDL) throws {
    let before = ddl.before == 0 ? nil : try schema(ddl.before)
    let after = ddl.after == 0 ? nil : try schema(ddl.after)
    let shape = PostgresShape(connection: connection, state: state, progress: progress)
    func mapped(_ schema: TableSchema) throws -> TableSchema {
      try TableMapping(schema, to: .postgres, names: options.names).target
    }
    switch (ddl.action, before, after) {
    case (.create, _, let after?):
      let target = try mapped(after)
      var known = PostgresTargetState.Table(schema: target.namespace, name: target.name)
      _ = try register(after, target, known, isSaved: false)
      known.isCreated = try shape.create(after, target)
      // A table that Cairn made at its first copy is still its own at a later one.
      if !known.isCreated, let was = tables[after.sourceKey] { known = was }
      if number <= options.askedBehind { (known.refreshing, known.isAwaited) = (.byKey, true) }
      try save(after.sourceKey, known)
      forgetShape(after.sourceKey)
    case (.drop, let before?, _):
      guard let known = tables[before.sourceKey] else { break }
      try shape.drop(try mapped(before), known)
      try forget(before.sourceKey)
    case (.rename, let before?, let after?), (.reshape, let before?, let after?):
      let (old, new) = (try mapped(before), try mapped(after))
      let known = tables[before.sourceKey] ?? .init(schema: old.namespace, name: old.name)
      var moved = PostgresTargetState.Table(schema: new.namespace, name: new.name)
      moved =
        ddl.action == .rename && !known.isCreated
        ? try shape.rename(old, new, known)
        : try shape.reshape(old, new, source: after, known, isRefreshed: ddl.isRefreshed, sink)
      try forget(before.sourceKey)
      _ = try register(after, new, moved, isSaved: false)
      try save(after.sourceKey, moved)
      forgetShape(after.sourceKey)
      if !ddl.isRefreshed { try shape.makeForeignKeys(tables, sink) }
    default: break
    }
  }
}
