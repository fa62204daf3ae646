import Changes
import SQLiteKit
import Trails

/// The requests for rows that one reading of the journal has found. The rows are read in the snapshot of the reading.
struct RequestedRows {
  private var counts: [Int64: UInt64] = [:]
  private var places: ClosedRange<Int64>?
  private var begun: Set<Int64> = []
  /// The tables whose definition has no room in the open transaction, by the id of their layout.
  private var roomless: Set<Int64> = []

  var isPending: Bool { places != nil }

  /// Adds the request in journal row `seq`.
  ///
  /// The first request for a table appends the record that begins the refresh of the table's requested rows. Appends no
  /// record if a refresh of the whole table is due.
  mutating func add(_ layout: CaptureInstance, at seq: Int64, to trail: TrailWriter) throws {
    counts[layout.id, default: 0] += 1
    places = (places?.lowerBound ?? seq)...seq
    guard layout.refresh == nil || layout.isPartial, !begun.contains(layout.id) else { return }
    guard let id = try trail.schemaIDInRoom(layout.schema, token: layout.token) else {
      roomless.insert(layout.id)
      return
    }
    begun.insert(layout.id)
    try Self.append(Refresh(schemaID: id, event: .start(.repair, .rows, estimatedRows: 1)), trail)
  }

  /// Appends the requested rows, and for each table the record that ends their refresh.
  ///
  /// Requests that no longer fit a captured table are reported and dropped.
  func append(_ layouts: [Int64: CaptureInstance], from source: Database, to trail: TrailWriter, tell: (String) -> Void)
    throws
  {
    guard let places else { return }
    let present = PresentLayouts(layouts)
    for asked in counts.keys.sorted() {
      guard let old = layouts[asked] else { continue }
      let name = old.schema.name
      guard let now = present[asked].flatMap({ layouts[$0] }) else {
        tell("rows of table \(name) were requested, but it is no longer captured: they are not sent")
        continue
      }
      if roomless.contains(asked) {
        tell("rows of table \(name) were requested together with those of too many tables: they are not sent")
      }
      guard now.refresh == nil || now.isPartial, begun.contains(asked) else { continue }
      guard try !Journal(source).isUnhooked(name) else {
        tell("rows of table \(name) were requested, but it is unhooked: they are not sent")
        try Self.end(now, 0, trail)
        continue
      }
      let names = { (layout: CaptureInstance) in layout.schema.key.map { layout.schema.columns[$0].name.sqliteKey } }
      guard now.schema.key.count == old.schema.key.count, !now.schema.key.isEmpty,
        now.id == old.id || names(now) == names(old) || now.schema.columns.count == old.schema.columns.count
      else {
        tell("rows of table \(name) were requested with a key that it no longer has: they are not sent")
        try Self.end(now, 0, trail)
        continue
      }
      try Self.append(asked: old, now, places, source, trail)
    }
  }

  private static func append(
    asked old: CaptureInstance, _ layout: CaptureInstance, _ places: ClosedRange<Int64>, _ source: Database,
    _ trail: TrailWriter
  ) throws {
    let schema = layout.schema
    let id = try trail.schemaID(schema, token: layout.token)
    let terms = schema.key.map { "\(schema.columns[$0].name.quotedName) = ?" }.joined(separator: " AND ")
    let columns = schema.columns.map(\.name.quotedName).joined(separator: ",")
    let row = try source.prepare("SELECT \(columns) FROM \(schema.name.quotedName) WHERE \(terms) LIMIT 1000")
    let requests = try source.prepare(
      "SELECT \(old.schema.key.map { "v\($0)" }.joined(separator: ",")), seq FROM cairn_journal WHERE seq BETWEEN ? AND ? AND code = ? ORDER BY seq"
    )
    try requests.bind([
      .integer(places.lowerBound), .integer(places.upperBound),
      .integer(old.id * 8 + JournalKind.asked.rawValue),
    ])
    var image = ByteWriter()
    var record = ByteWriter()
    var (rows, asked): (UInt64, UInt64) = (0, 0)
    var last = places.lowerBound - 1
    while try requests.step() {
      try Journal.check(requests.integer(schema.key.count), after: &last, source.path)
      asked += 1
      let key = schema.key.indices.map { requests.value($0) }
      var bounds: [Value?] = schema.columns.map { _ in nil }
      for (index, value) in zip(schema.key, key) { bounds[index] = value }
      try append(Refresh(schemaID: id, event: .chunk(.row(bounds))), trail)
      try row.bind(key)
      while try row.step() {
        image.removeAll()
        for index in schema.columns.indices { row.encode(index, into: &image) }
        record.removeAll()
        record.appendVarint(id)
        record.appendCounted(image.bytes)
        try trail.append(kind: RecordKind.refreshRow, record.bytes)
        rows += 1
      }
      row.reset()
    }
    if rows < asked { try WaitingRecords(schema, id).append(within: .all, from: source, to: trail) }
    try end(layout, rows, trail)
  }

  private static func end(_ layout: CaptureInstance, _ rows: UInt64, _ trail: TrailWriter) throws {
    // A running copy of other rows of the table appends the record that ends it.
    guard !layout.isPartial else { return }
    try append(
      Refresh(schemaID: try trail.schemaID(layout.schema, token: layout.token), event: .end(rows: rows)), trail)
  }

  private static func append(_ refresh: Refresh, _ trail: TrailWriter) throws {
    var writer = ByteWriter(capacity: 256)
    writer.append(refresh)
    try trail.append(kind: RecordKind.refresh, writer.bytes)
  }
}
