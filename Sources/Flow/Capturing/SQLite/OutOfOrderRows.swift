import Changes
import SQLiteKit
import Trails

/// Rows that an application may have written between ALTER TABLE ADD COLUMN and Cairn's new triggers. The journal lacks
/// the new columns of these rows, so the trail gets the missing values as updates, after all other changes of the
/// reading. Example, the application's statements on the left and the trail's records on the right:
///
///     ALTER TABLE item ADD COLUMN note DEFAULT 'b'     insert item: id = 4
///     INSERT INTO item(id) VALUES (4)                  reshape item: add column note
///                                                      update item: id = 4, note = 'b'
enum OutOfOrderRows {
  /// Returns whether a reading of the journal may include rows that were written before Cairn's new triggers existed.
  static func may(_ layouts: [Int64: CaptureInstance], in look: SourcePosition.Look, of source: Database) throws -> Bool
  {
    guard layouts.values.contains(where: { isAdded($0, in: look) }) else { return false }
    return try source.integer("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'cairn_checkpoint'") != nil
  }

  private static func isAdded(_ layout: CaptureInstance, in look: SourcePosition.Look) -> Bool {
    layout.isPartial && !layout.isExact && look.from < layout.since && layout.since <= look.through
  }

  /// Appends an update for each existing row that was written before Cairn's new triggers existed.
  ///
  /// - Parameter tellIllFormed: Is called with each column whose text cannot be sent unchanged.
  /// - Returns: The number of updates.
  static func append(
    _ layouts: [Int64: CaptureInstance], in look: SourcePosition.Look, from source: Database, to trail: TrailWriter,
    tellIllFormed: (TableSchema, Int) -> Void
  ) throws -> UInt64 {
    // The layout that is in force now has the present columns.
    var former: [Int64: [CaptureInstance]] = [:]
    let present = PresentLayouts(layouts)
    for layout in layouts.values where isAdded(layout, in: look) {
      guard let before = layout.previous.flatMap({ layouts[$0] }),
        let now = present[layout.id].flatMap({ layouts[$0] }), now.isPartial, now.schema.key == before.schema.key,
        try !Journal(source).isUnhooked(now.schema.name)
      else { continue }
      former[now.id, default: []].append(before)
    }
    var count: UInt64 = 0
    for (id, former) in former.sorted(by: { $0.key < $1.key }) {
      guard let layout = layouts[id] else { continue }
      count += try append(former, layout, in: look, source, trail, tellIllFormed)
    }
    return count
  }

  private static func append(
    _ former: [CaptureInstance], _ layout: CaptureInstance, in look: SourcePosition.Look, _ source: Database,
    _ trail: TrailWriter,
    _ tellIllFormed: (TableSchema, Int) -> Void
  ) throws -> UInt64 {
    let schema = layout.schema
    let firstNew = layout.firstNew ?? schema.columns.count
    let codes = former.flatMap { layout in [JournalKind.insert, .updateNew].map { layout.id * 8 + $0.rawValue } }
    let keys = try source.prepare(
      """
      SELECT DISTINCT \(schema.key.map { "v\($0)" }.joined(separator: ",")) FROM cairn_journal
      WHERE seq > ? AND seq < ? AND code IN (\(codes.map(\.description).joined(separator: ",")))
      """)
    try keys.bind([.integer(look.from), .integer(layout.since)])
    let terms = schema.key.map { "\(schema.columns[$0].name.quotedName) = ?" }.joined(separator: " AND ")
    let columns = schema.columns.map(\.name.quotedName).joined(separator: ",")
    let row = try source.prepare("SELECT \(columns) FROM \(schema.name.quotedName) WHERE \(terms) LIMIT 1000")
    let id = try trail.schemaID(schema, token: layout.token)
    var before = ByteWriter()
    var after = ByteWriter()
    var record = ByteWriter()
    var count: UInt64 = 0
    while try keys.step() {
      try row.bind(schema.key.indices.map { keys.value($0) })
      while try row.step() {
        before.removeAll()
        after.removeAll()
        for index in schema.columns.indices {
          if index < firstNew {
            row.encode(index, into: &before)
            after.appendUnchanged()
          } else {
            before.appendUnchanged()
            row.encode(index, into: &after)
          }
        }
        if let column = source.takeIllFormedColumn() { tellIllFormed(schema, column) }
        record.removeAll()
        record.append(Operation.update.rawValue)
        record.append(([.before, .after] as ChangeFlags).rawValue)
        record.appendVarint(id)
        record.appendCounted(before.bytes)
        record.appendCounted(after.bytes)
        try trail.append(kind: RecordKind.change, record.bytes)
        count += 1
      }
      row.reset()
    }
    return count
  }
}
