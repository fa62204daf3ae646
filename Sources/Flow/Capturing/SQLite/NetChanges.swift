import Changes
import SQLiteKit
import Trails

/// Collects the net change of each row: an insert and a delete cancel out, ten updates become one. The changes wait in
/// a temporary database. Changes of a key or a unique value are not folded.
final class NetChanges {
  private let database: Database
  private let find, put, drop: Statement
  private var layouts: [Int64: CaptureInstance] = [:]
  private var place: Int64 = 0
  private var isEmpty = true
  private var writer = JournalReader()

  init() throws {
    writer.mayLeaveOut = false
    database = try Database(path: "", mode: .create)
    try database.executeScript(
      """
      PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
      CREATE TABLE net(layout, key, place, before, after, implied, PRIMARY KEY (layout, key)) WITHOUT ROWID;
      BEGIN
      """)
    find = try database.prepare("SELECT before, after FROM net WHERE layout = ? AND key = ?")
    put = try database.prepare("INSERT OR REPLACE INTO net VALUES (?, ?, ?, ?, ?, ?)")
    drop = try database.prepare("DELETE FROM net WHERE layout = ? AND key = ?")
  }

  /// Adds a change, with the row before and after it. Returns false if the change cannot be folded; the caller must
  /// then write the change, after all collected ones.
  func take(
    _ layout: CaptureInstance, before: UnsafeRawBufferPointer?, after: UnsafeRawBufferPointer?, isImplied: Bool = false,
    _ trail: TrailWriter
  ) throws -> Bool {
    let columns = layout.schema.columns.count
    let (old, new) = (try before.map { try Image($0, columns) }, try after.map { try Image($0, columns) })
    guard let key = Self.key(layout, old, new) else { return try refuse(trail) }
    let known = try entry(layout.id, key)
    let first = known.map { $0.before } ?? old?.bytes
    if let first, let new, try first.withUnsafeBytes({ try Self.changesUnique(layout, Image($0, columns), new) }) {
      return try refuse(trail)
    }
    guard first != nil || new != nil else {
      try run(drop, [.integer(layout.id), .blob(key)])
      return true
    }
    place += 1
    layouts[layout.id] = layout
    isEmpty = false
    try run(
      put,
      [
        .integer(layout.id), .blob(key), .integer(place), first.map { .blob($0) } ?? .null,
        new.map { .blob($0.bytes) } ?? .null, .integer(isImplied ? 1 : 0),
      ])
    return true
  }

  func write(to trail: TrailWriter) throws {
    guard !isEmpty else { return }
    for condition in ["after IS NULL", "before IS NOT NULL AND after IS NOT NULL", "before IS NULL"] {
      let rows = try database.prepare(
        "SELECT layout, before, after, implied FROM net WHERE \(condition) ORDER BY place")
      while try rows.step() {
        guard let layout = layouts[rows.integer(0)] else { continue }
        try writer.append(
          layout, before: Self.bytes(rows.value(1)), after: Self.bytes(rows.value(2)), isImplied: rows.integer(3) == 1,
          to: trail)
      }
    }
    try database.execute("DELETE FROM net")
    (layouts, isEmpty) = ([:], true)
  }

  private func refuse(_ trail: TrailWriter) throws -> Bool {
    try write(to: trail)
    return false
  }

  private func entry(_ layout: Int64, _ key: [UInt8]) throws -> (before: [UInt8]?, after: [UInt8]?)? {
    defer { find.reset() }
    try find.bind([.integer(layout), .blob(key)])
    return try find.step() ? (Self.bytes(find.value(0)), Self.bytes(find.value(1))) : nil
  }

  private func run(_ statement: Statement, _ values: [Value]) throws {
    try statement.bind(values)
    while try statement.step() {}
    statement.reset()
  }

  private static func bytes(_ value: Value) -> [UInt8]? { if case .blob(let bytes) = value { bytes } else { nil } }

  // MARK: Images

  private struct Image {
    let bytes: [UInt8]
    private var ends: [Int] = []
    init(_ row: UnsafeRawBufferPointer, _ columns: Int) throws {
      bytes = Array(row)
      var reader = ByteReader(row)
      for _ in 0..<columns {
        _ = try reader.readColumn()
        ends.append(reader.offset)
      }
    }
    func column(_ index: Int) -> ArraySlice<UInt8> { bytes[(index == 0 ? 0 : ends[index - 1])..<ends[index]] }
    func columns(_ indexes: [Int]) -> [UInt8] { indexes.flatMap(column) }
  }

  /// Returns the key of the changed row; nil if the table has no key or the change alters it.
  private static func key(_ layout: CaptureInstance, _ old: Image?, _ new: Image?) -> [UInt8]? {
    let schema = layout.schema
    guard !layout.carriesRowid, !schema.key.isEmpty, schema.flags.isDisjoint(with: [.wholeRow, .nullableKey]) else {
      return nil
    }
    let keys = [old, new].compactMap { $0?.columns(schema.key) }
    guard let key = keys.first, keys.allSatisfy({ $0 == key }) else { return nil }
    return key
  }

  private static func changesUnique(_ layout: CaptureInstance, _ old: Image, _ new: Image) -> Bool {
    layout.schema.uniques.contains { old.columns($0) != new.columns($0) }
  }
}
