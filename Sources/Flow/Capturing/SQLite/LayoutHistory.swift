import Changes
import SQLiteKit

/// The layouts of an SQLite source, and the schema changes that its journal marks.
///
///     history.changes(at: marker)      // [.change(.rename …), .change(.reshape …)]
struct LayoutHistory {
  enum Step {
    case change(ShapeChange)
    /// Begins a refresh of the rows whose added columns differ from their defaults.
    case beginRows(CaptureInstance)
  }

  private(set) var layouts: [Int64: CaptureInstance] = [:]
  /// The shapes of tables after the trail has dropped indexes, before the tables' other schema changes. The key is the
  /// id of the table's next layout.
  private var relaxed: [Int64: TableSchema] = [:]

  private var sorted: [CaptureInstance] = []
  /// The journal rows during which each table was captured.
  private(set) var spans = CapturedSpans([])

  mutating func set(_ layouts: [Int64: CaptureInstance]) {
    self.layouts = layouts
    sorted = layouts.values.sorted { $0.id < $1.id }
    spans = CapturedSpans(sorted)
  }

  /// Whether the trail has dropped indexes of a table before the table's other schema changes.
  var hasDroppedIndexes: Bool { !relaxed.isEmpty }

  mutating func forgetDroppedIndexes() { relaxed = [:] }

  /// Returns schema changes that drop each index which a table loses after journal row `from`. Later journal rows may
  /// violate these indexes.
  ///
  /// - Parameter told: The journal row up to which an earlier run wrote such changes to the trail; nil if none did.
  mutating func dropIndexes(behind from: Int64, told: Int64?) throws -> [ShapeChange] {
    relaxed = [:]
    var changes: [ShapeChange] = []
    for layout in sorted {
      try CaptureStopped.check()
      guard layout.since > from else { continue }
      guard let before = predecessor(of: layout), before.since <= from, let change = relax(before, for: layout) else {
        continue
      }
      if told.map({ layout.since > $0 }) ?? true { changes.append(change) }
    }
    return changes
  }

  mutating func changes(at marker: Int64) throws -> [Step] {
    let all = sorted
    var steps: [Step] = []
    let succeeded = Set(all.compactMap(\.previous))
    for layout in all where layout.ended == marker && !succeeded.contains(layout.id) {
      steps.append(.change(ShapeChange(action: .drop, before: layout.shape)))
    }
    let fresh = all.filter { $0.since == marker && $0.action != nil }
    // Tables that take each other's names step aside first.
    let taken = Set(fresh.filter { $0.previous != nil }.map { $0.schema.name.sqliteKey })
    var aside: [Int64: TableShape] = [:]
    for layout in fresh {
      try CaptureStopped.check()
      guard let before = predecessor(of: layout), before.schema.name.sqliteKey != layout.schema.name.sqliteKey,
        taken.contains(before.schema.name.sqliteKey)
      else { continue }
      var schema = relaxed[layout.id] ?? before.schema
      schema.name = "cairn_moving_\(layout.id)"
      let moved = TableShape(schema: schema, token: layout.token | 1 << 62)
      steps.append(
        .change(ShapeChange(action: .rename, before: relaxedShape(layout) ?? before.shape, after: moved)))
      aside[layout.id] = moved
    }
    for layout in fresh {
      try CaptureStopped.check()
      guard let action = layout.action else { continue }
      let before = predecessor(of: layout)
      steps.append(
        .change(
          ShapeChange(
            action: action, before: aside[layout.id] ?? relaxedShape(layout) ?? before?.shape, after: layout.shape,
            isRefreshed: layout.refresh != nil && !layout.isPartial,
            origins: before.flatMap { layout.origins(from: $0.schema) })))
      if layout.isPartial { steps.append(.beginRows(layout)) }
    }
    for layout in all {
      try CaptureStopped.check()
      guard let before = predecessor(of: layout), before.since == marker else { continue }
      if let change = relax(before, for: layout) { steps.append(.change(change)) }
    }
    return steps
  }

  private func predecessor(of layout: CaptureInstance) -> CaptureInstance? { layout.previous.flatMap { layouts[$0] } }

  private func relaxedShape(_ layout: CaptureInstance) -> TableShape? {
    relaxed[layout.id].map { TableShape(schema: $0, token: layout.token | 1 << 61) }
  }

  /// Returns the schema change that drops the indexes which `layout` lacks. Nil if `layout` lacks none, or was written
  /// in the transaction of the schema change.
  private mutating func relax(_ before: CaptureInstance, for layout: CaptureInstance) -> ShapeChange? {
    guard !layout.isExact, let schema = layout.relaxing(before.schema) else { return nil }
    relaxed[layout.id] = schema
    return ShapeChange(
      action: .reshape, before: before.shape, after: relaxedShape(layout), origins: Array(schema.columns.indices))
  }
}

extension CaptureInstance {
  var shape: TableShape { TableShape(schema: schema, token: token) }

  /// Returns whether a change of a row goes into the trail. If not, a later chunk of the refresh brings the row.
  ///
  /// - Parameters:
  ///   - rowid: The rowid of the changed row; nil if journal rows of the table have none.
  ///   - state: The refresh that is in progress; nil if there is none.
  func wantsChange(of rowid: Int64?, during state: SourcePosition.RefreshState?) -> Bool {
    guard refresh != nil, !isPartial, !passesChanges else { return true }
    guard let state, state.layout == id, !state.isPartial else { return false }
    if state.isDone || refreshMethod == .byKey { return true }
    guard let rowid, case .integer(let cursor)? = state.cursor?.first else { return false }
    return rowid <= cursor
  }
}
