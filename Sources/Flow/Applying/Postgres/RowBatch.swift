import Changes

/// The collected changes of one table's rows, at most one delete, one update and one insert for each row.
///
/// Deletes are sent first, then updates, then inserts.
final class RowBatch {
  enum Kind { case delete, update, insert }

  /// The form of a statement. Changes of the same form can be sent together.
  struct Shape: Hashable {
    var kind: Kind
    var set = ColumnMask()
    var checks = ColumnMask()
  }

  struct Entry {
    var shape: Int
    /// The number of the stored row before the change; nil if there is none.
    var before: Int?
    var after: Int?
  }

  let table: PostgresApplyTable
  private(set) var entries: [Entry] = []
  /// The different statements that the collected changes need. The first one is for inserts.
  private(set) var shapes = [Shape(kind: .insert)]
  private var shapeNumbers: [Shape: Int] = [:]
  private var lastShape = 0
  private static let shapesMax = 100
  private(set) var rows: RowStore
  private var places = KeyPlaces()
  /// The number of collected changes that the key index lists.
  private var placedCount = 0

  private(set) var insertCount = 0
  var isEmpty: Bool { entries.isEmpty }
  var holdsInsertsOnly: Bool { insertCount == entries.count }
  var byteCount: Int { rows.byteCount }

  init(_ table: PostgresApplyTable) {
    self.table = table
    rows = RowStore(columnCount: table.columns.count)
  }

  func removeAll() {
    places.removeAll()
    placedCount = 0
    insertCount = 0
    entries.removeAll(keepingCapacity: true)
    rows.removeAll()
    guard shapes.count > Self.shapesMax else { return }
    shapes.removeSubrange(1...)
    shapeNumbers.removeAll()
    lastShape = 0
  }

  // MARK: Changes

  func insert(_ row: borrowing RowText) {
    entries.append(Entry(shape: 0, before: nil, after: rows.append(row)))
    insertCount += 1
  }

  func update(
    _ before: borrowing RowText, _ after: borrowing RowText, set: ColumnMask, checks: ColumnMask
  ) -> Bool {
    guard let index = entry(of: before, after) else {
      entries.append(
        Entry(
          shape: number(of: Shape(kind: .update, set: set, checks: checks)),
          before: before.count > 0 ? rows.append(before) : nil, after: rows.append(after)))
      return true
    }
    guard let row = entries[index].after, isKnown(before, checks, at: index) else { return false }
    entries[index].after = rows.append(after, over: row)
    var shape = shapes[entries[index].shape]
    guard shape.kind == .update else { return true }
    shape.set.formUnion(set)
    entries[index].shape = number(of: shape)
    return true
  }

  func delete(_ before: borrowing RowText, checks: ColumnMask) -> Bool {
    guard let index = entry(of: before, before) else {
      let shape = number(of: Shape(kind: .delete, checks: checks))
      entries.append(Entry(shape: shape, before: rows.append(before), after: nil))
      return true
    }
    let shape = shapes[entries[index].shape]
    guard shape.kind == .update, isKnown(before, checks, at: index) else { return false }
    entries[index].shape = number(of: Shape(kind: .delete, checks: shape.checks))
    entries[index].before = entries[index].before ?? rows.append(before)
    entries[index].after = nil
    return true
  }

  private func number(of shape: Shape) -> Int {
    if shapes[lastShape] == shape { return lastShape }
    if let known = shapeNumbers[shape] {
      lastShape = known
    } else {
      lastShape = shapes.count
      shapes.append(shape)
      shapeNumbers[shape] = lastShape
    }
    return lastShape
  }

  private func isKnown(_ before: borrowing RowText, _ checks: ColumnMask, at index: Int) -> Bool {
    let entry = entries[index]
    for column in table.columns.indices where checks.contains(column) {
      guard let row = row(entry.after, entry.before, giving: column), rows.isEqual(column, of: row, to: before) else {
        return false
      }
    }
    return true
  }

  func row(_ first: Int?, _ second: Int?, giving column: Int) -> Int? {
    if let first, rows.gives(column, of: first) { return first }
    if let second, rows.gives(column, of: second) { return second }
    return nil
  }

  // MARK: Keys

  private func entry(of before: borrowing RowText, _ after: borrowing RowText) -> Int? {
    while placedCount < entries.count {
      place(placedCount)
      placedCount += 1
    }
    var hasher = Hasher()
    for column in table.key {
      let text = before.gives(column) ? before.text(column) : after.text(column)
      hasher.combine(bytes: text)
      hasher.combine(text.count)
    }
    return places.find(hasher.finalize()) { index in
      table.key.allSatisfy { column in
        let row = keyRow(index, column)
        return before.gives(column)
          ? rows.isEqual(column, of: row, to: before) : rows.isEqual(column, of: row, to: after)
      }
    }
  }

  private func place(_ index: Int) {
    var hasher = Hasher()
    for column in table.key {
      let text = rows.text(column, of: keyRow(index, column))
      hasher.combine(bytes: text)
      hasher.combine(text.count)
    }
    places.set(hasher.finalize(), to: index) { other in
      table.key.allSatisfy { column in
        rows.isEqual(column, of: keyRow(other, column), to: keyRow(index, column))
      }
    }
  }

  /// Returns the number of the row with a value for the key column: the row before the change, or else after it.
  private func keyRow(_ index: Int, _ column: Int) -> Int {
    let entry = entries[index]
    if let before = entry.before, rows.gives(column, of: before) { return before }
    return entry.after ?? entry.before ?? 0
  }
}

/// Stores rows of one table in one buffer. A row is identified by its number.
struct RowStore: ~Copyable {
  private let columnCount: Int
  private var count = 0
  private var bytes = ByteWriter(capacity: 4096)
  private var spans: [RowText.Span] = []

  init(columnCount: Int) { self.columnCount = columnCount }

  var byteCount: Int { bytes.count + spans.count * MemoryLayout<RowText.Span>.stride }

  mutating func removeAll() {
    bytes.removeAll()
    bytes.shrink(above: 1 << 20)
    spans.removeAll(keepingCapacity: true)
    count = 0
  }

  mutating func append(_ row: borrowing RowText) -> Int {
    row.copy(to: &bytes, &spans)
    count += 1
    return count - 1
  }

  /// Adds a row and returns its number. Columns that `row` lacks are taken from the row with the number `old`.
  mutating func append(_ row: borrowing RowText, over old: Int) -> Int {
    for column in 0..<columnCount {
      if !row.gives(column) {
        spans.append(spans[old * columnCount + column])
      } else {
        spans.append(row.copy(column, to: &bytes))
      }
    }
    count += 1
    return count - 1
  }

  func span(_ column: Int, of row: Int) -> RowText.Span { spans[row * columnCount + column] }
  func gives(_ column: Int, of row: Int) -> Bool { span(column, of: row).isGiven }

  /// Returns a column's text without its NUL; empty for NULL and for a missing value.
  func text(_ column: Int, of row: Int) -> UnsafeRawBufferPointer {
    let span = span(column, of: row)
    guard span.hasText else { return UnsafeRawBufferPointer(start: nil, count: 0) }
    return UnsafeRawBufferPointer(rebasing: bytes.bytes[span.start..<span.start + span.count])
  }

  func isEqual(_ column: Int, of row: Int, to other: borrowing RowText) -> Bool {
    guard other.gives(column) else { return false }
    return Self.areEqual(text(column, of: row), span(column, of: row), other.text(column), other.isNull(column))
  }

  func isEqual(_ column: Int, of row: Int, to other: Int) -> Bool {
    Self.areEqual(text(column, of: row), span(column, of: row), text(column, of: other), span(column, of: other).isNull)
  }

  private static func areEqual(
    _ text: UnsafeRawBufferPointer, _ span: RowText.Span, _ other: UnsafeRawBufferPointer, _ isNull: Bool
  ) -> Bool {
    span.isNull == isNull && text.isSame(as: other)
  }

  func copy(_ row: Int?, to text: inout RowText) {
    text.removeAll()
    guard let row else { return }
    for column in 0..<columnCount {
      let span = span(column, of: row)
      if span.hasText {
        text.append(self.text(column, of: row))
      } else if span.isNull {
        text.appendNull()
      } else {
        text.appendUnchanged()
      }
    }
  }

  func appendLine(_ row: Int, to line: inout ByteWriter) {
    for column in 0..<columnCount {
      if column > 0 { line.append(UInt8(ascii: "\t")) }
      if span(column, of: row).hasText {
        line.appendCopyText(text(column, of: row))
      } else {
        line.append(UInt8(ascii: "\\"))
        line.append(UInt8(ascii: "N"))
      }
    }
    line.append(UInt8(ascii: "\n"))
  }
}

/// A hash table from the hash of a key to the number of an entry, with open addressing.
struct KeyPlaces {
  private struct Slot {
    var hash = 0
    var entry: Int32 = 0
  }
  private var slots = [Slot](repeating: Slot(), count: 64)
  private var used: [Int] = []

  func find(_ hash: Int, _ isSame: (Int) -> Bool) -> Int? {
    let slot = slots[slot(hash, isSame)]
    return slot.entry == 0 ? nil : Int(slot.entry) - 1
  }

  mutating func set(_ hash: Int, to entry: Int, _ isSame: (Int) -> Bool) {
    if used.count * 2 >= slots.count { grow() }
    let place = slot(hash, isSame)
    if slots[place].entry == 0 { used.append(place) }
    slots[place] = Slot(hash: hash, entry: Int32(entry) + 1)
  }

  mutating func removeAll() {
    for place in used { slots[place].entry = 0 }
    used.removeAll(keepingCapacity: true)
  }

  private func slot(_ hash: Int, _ isSame: (Int) -> Bool) -> Int {
    let mask = slots.count - 1
    var place = hash & mask
    while slots[place].entry != 0 {
      if slots[place].hash == hash, isSame(Int(slots[place].entry) - 1) { return place }
      place = (place + 1) & mask
    }
    return place
  }

  private mutating func grow() {
    let old = used.map { slots[$0] }
    slots = [Slot](repeating: Slot(), count: slots.count * 2)
    used.removeAll(keepingCapacity: true)
    let mask = slots.count - 1
    for slot in old {
      var place = slot.hash & mask
      while slots[place].entry != 0 { place = (place + 1) & mask }
      slots[place] = slot
      used.append(place)
    }
  }
}
