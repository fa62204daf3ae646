import Changes

/// A table with its rule, which converts the source's images into images of the target's table.
final class ShapedTable {
  /// Whether a row passes the rule's filter.
  enum Side {
    case inside, outside
    /// The source did not provide all values that the filter needs.
    case unknown
  }

  /// The error for a value that the rule needs and the source did not provide.
  struct Missing: Error {
    let column: String
  }

  enum Image {
    /// The old row, as far as known.
    case old
    /// Only the changed values.
    case changes
    case new
    /// The whole new row. Values that the source did not provide stay unchanged at the target.
    case known
  }

  let plan: ReshapePlan
  private let calculator: RowCalculator
  private let key: Set<Int>
  private var computed = ByteWriter(capacity: 256)
  private var places: [Range<Int>] = []

  init(_ plan: ReshapePlan) {
    self.plan = plan
    calculator = RowCalculator(plan)
    key = Set(plan.source.key)
  }

  var removal: TableTreatment.Removal { plan.schema.treatment?.removal ?? .applied }

  /// Whether other trails may have rows in the target's table.
  var hasShare: Bool { plan.schema.treatment?.shares.isEmpty == false }

  /// Returns the old value of a column; nil if unknown. Without an old row, a key column counts as unchanged.
  func old(_ column: Int, _ row: SourceRow) -> UnsafeRawBufferPointer? {
    row.old(column)
      ?? (row.before.isEmpty && key.contains(column) && row.givesAfter(column) ? row.after[column] : nil)
  }

  // MARK: Filter

  func oldSide(_ row: SourceRow) throws -> Side { try side { old($0, row) } }
  func newSide(_ row: SourceRow) throws -> Side { try side { row.new($0) } }

  private func side(_ value: (Int) -> UnsafeRawBufferPointer?) throws -> Side {
    guard let filter = plan.filter else { return .inside }
    guard filter.references.allSatisfy({ value($0) != nil }) else { return .unknown }
    try calculator.set(value)
    return try calculator.isInside() ? .inside : .outside
  }

  // MARK: Images

  /// Appends the image of the target's row.
  /// - Parameter removed: The bytes for the column that marks deleted rows.
  /// - Returns: Whether the image has a value for every column.
  /// - Throws: ``Missing`` if a column of a new row is unknown.
  func append(
    _ image: Image, of row: SourceRow, removed: [UInt8], to writer: inout ByteWriter,
    history: ((HistoryColumn, [String]) -> [UInt8])? = nil
  ) throws -> Bool {
    var isWhole = true
    var unknown: [String] = []
    try compute(image, row)
    for (index, output) in plan.outputs.enumerated() {
      var bytes: UnsafeRawBufferPointer?
      switch output {
      case .plain(let column): bytes = plain(column, image, row)
      case .computed(let place):
        let references = plan.computed[place].references
        if image == .changes, !references.contains(where: row.givesAfter) { break }
        if references.allSatisfy({ value($0, image, row) != nil }) {
          bytes = UnsafeRawBufferPointer(rebasing: computed.bytes[places[place]])
        } else if image == .changes {
          throw Missing(column: plan.schema.columns[index].name)
        }
      case .constant(let value):
        if image == .changes, !row.before.isEmpty { break }
        writer.append(value)
        continue
      case .removed:
        writer.append(removed)
        continue
      case .history(let column):
        writer.append(history.map { $0(column, unknown) } ?? [ValueTag.null])
        continue
      }
      if let bytes {
        writer.append(bytes)
      } else if history != nil {
        unknown.append(plan.schema.columns[index].name)
        writer.appendNull()
      } else if image == .new {
        throw Missing(column: plan.schema.columns[index].name)
      } else {
        isWhole = false
        writer.appendUnchanged()
      }
    }
    return isWhole
  }

  private func plain(_ column: Int, _ image: Image, _ row: SourceRow) -> UnsafeRawBufferPointer? {
    image == .changes ? (row.givesAfter(column) ? row.after[column] : nil) : value(column, image, row)
  }

  private func value(_ column: Int, _ image: Image, _ row: SourceRow) -> UnsafeRawBufferPointer? {
    image == .old ? old(column, row) : row.new(column)
  }

  private func compute(_ image: Image, _ row: SourceRow) throws {
    guard !plan.computed.isEmpty else { return }
    computed.removeAll()
    computed.shrink(above: 1 << 20)
    places.removeAll(keepingCapacity: true)
    try calculator.set { value($0, image, row) }
    try calculator.computed { _, view in
      let start = computed.count
      computed.append(view)
      places.append(start..<computed.count)
    }
  }

  /// Returns whether an update surely changes none of the target's columns. False if the source did not provide the old
  /// row.
  func isUntouched(by row: SourceRow) -> Bool {
    guard !row.before.isEmpty else { return false }
    return plan.outputs.allSatisfy { output in
      switch output {
      case .plain(let column): !row.isChanged(column)
      case .computed(let place): !plan.computed[place].references.contains(where: row.isChanged)
      default: true
      }
    }
  }

  func isKeyChanged(by row: SourceRow) -> Bool { key.contains(where: row.isChanged) && !row.before.isEmpty }

  // MARK: Keys of chunks

  /// Converts the key at the bound of a chunk to the target's columns. A value outside of the key is nil.
  func bound(_ values: [Value?]) throws -> [Value?] {
    try plan.outputs.enumerated().map { index, output in
      guard plan.schema.columns[index].keyOrdinal > 0 else { return nil }
      switch output {
      case .plain(let column): return column < values.count ? values[column] : nil
      case .constant(let bytes):
        return try bytes.withUnsafeBytes { raw in
          var reader = ByteReader(raw)
          return try reader.readColumn().value
        }
      default: return nil
      }
    }
  }
}

extension ByteWriter {
  mutating func append(_ view: ColumnView) {
    switch view {
    case .unchanged: appendUnchanged()
    case .null: appendNull()
    case .integer(let number): appendInteger(number)
    case .real(let number): appendReal(number)
    case .text(let bytes): appendText(bytes)
    case .blob(let bytes): appendBlob(bytes)
    case .exact(let bytes): appendExact(bytes)
    }
  }
}
