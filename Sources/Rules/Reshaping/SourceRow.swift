import Changes
import Mapping
import SQLiteKit

/// The images of one change, split into columns: the old and new value of each, as far as the source provides them.
struct SourceRow {
  /// The encoded old value of each column; valid only as long as the bytes of the record.
  private(set) var before: [UnsafeRawBufferPointer] = []
  private(set) var after: [UnsafeRawBufferPointer] = []

  mutating func read(before old: ImageView?, after new: ImageView?, columns count: Int) throws {
    before.removeAll(keepingCapacity: true)
    after.removeAll(keepingCapacity: true)
    if let old { try Self.read(old, into: &before, count) }
    if let new { try Self.read(new, into: &after, count) }
  }

  private static func read(_ image: ImageView, into columns: inout [UnsafeRawBufferPointer], _ count: Int) throws {
    var reader = ByteReader(image.bytes)
    while !reader.isAtEnd {
      let start = reader.offset
      _ = try reader.readColumn()
      columns.append(UnsafeRawBufferPointer(rebasing: image.bytes[start..<reader.offset]))
    }
    guard columns.count == count else {
      throw DecodingError(offset: 0, problem: "an image has \(columns.count.counted("column")), not \(count)")
    }
  }

  static func isGiven(_ value: UnsafeRawBufferPointer) -> Bool { value.first.map { $0 != ValueTag.unchanged } ?? false }

  func givesBefore(_ column: Int) -> Bool { column < before.count && Self.isGiven(before[column]) }
  func givesAfter(_ column: Int) -> Bool { column < after.count && Self.isGiven(after[column]) }

  /// Returns the old value of a column; nil if the source does not provide it.
  func old(_ column: Int) -> UnsafeRawBufferPointer? { givesBefore(column) ? before[column] : nil }

  /// Returns the new value of a column, also if the column did not change.
  func new(_ column: Int) -> UnsafeRawBufferPointer? { givesAfter(column) ? after[column] : old(column) }

  /// Returns whether an update changes the value of the column.
  func isChanged(_ column: Int) -> Bool {
    guard givesAfter(column) else { return false }
    return old(column).map { !$0.isSame(as: after[column]) } ?? true
  }
}

/// Evaluates the filter and the computed columns of a rule for rows.
final class RowCalculator {
  /// The error for a row for which SQLite cannot evaluate an expression.
  struct Failure: Error {
    let message: String
  }

  private let plan: ReshapePlan
  private let converters: [SQLiteValue]?
  /// For each input column, whether a row is refused that has NaN or an infinity in it, because SQLite would calculate
  /// with 0 instead.
  private let mustBeNumbers: [Bool]
  private var views: [ColumnView] = []
  private var scratch = ByteWriter(capacity: 256)

  init(_ plan: ReshapePlan) {
    self.plan = plan
    converters =
      plan.source.engine == .sqlite ? nil : plan.inputs.map { SQLiteValue(from: plan.source.columns[$0]) }
    mustBeNumbers = plan.inputs.map { column in
      guard plan.source.engine == .postgres else { return false }
      switch PostgresType(plan.source.columns[column]).kind {
      case .numeric, .float4, .float8: break
      default: return false
      }
      let expressions = plan.computed + (plan.filter.map { [$0] } ?? [])
      return expressions.contains { $0.references.contains(column) && !$0.asksForTypes }
    }
  }

  /// Loads the row to evaluate. `value` returns the encoded value of a column; nil if the value is unknown. Do not
  /// evaluate an expression that uses an unknown value.
  func set(_ value: (Int) -> UnsafeRawBufferPointer?) throws {
    guard let calculator = plan.calculator else { return }
    views.removeAll(keepingCapacity: true)
    scratch.removeAll()
    scratch.shrink(above: 1 << 20)
    scratch.reserve(plan.inputs.reduce(0) { $0 + (value($1)?.count ?? 0) })
    for (index, column) in plan.inputs.enumerated() {
      guard let bytes = value(column) else {
        views.append(.null)
        continue
      }
      var reader = ByteReader(bytes)
      let view = try reader.readColumn()
      guard let converters else {
        views.append(view)
        continue
      }
      do throws(Misfit) { views.append(try converters[index].convert(view, scratch: &scratch)) } catch {
        throw Failure(message: "column \(plan.source.columns[column].name): \(error.reason)")
      }
      if mustBeNumbers[index], case .text(let text) = views[index],
        let name = Self.noNumbers.first(where: { text.elementsEqual($0.utf8) })
      {
        let column = plan.source.columns[column].name
        throw Failure(
          message:
            "column \(column) is \(name), which SQLite takes as text: handle it in the expression with typeof(\(column))"
        )
      }
    }
    try evaluating { try calculator.set(views) }
  }

  private static let noNumbers = ["NaN", "Infinity", "-Infinity"]

  func isInside() throws -> Bool {
    guard let calculator = plan.calculator, plan.filter != nil else { return true }
    return try evaluating { try calculator.isTrue(ReshapePlan.filterGroup) }
  }

  /// Calls `body` with the value of each computed column.
  func computed(_ body: (Int, ColumnView) throws -> Void) throws {
    guard let calculator = plan.calculator, !plan.computed.isEmpty else { return }
    try evaluating { try calculator.values(ReshapePlan.computedGroup, body) }
  }

  private func evaluating<T>(_ body: () throws -> T) throws -> T {
    do { return try body() } catch let error as SQLiteError { throw Failure(message: error.message) }
  }
}
