import Changes
import Mapping
import SQLiteKit

/// The old and new values of one change, as far as the source provides them.
struct SourceRow {
  /// The encoded old value of each column. Valid only while the bytes of the record are valid.
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

  func old(_ column: Int) -> UnsafeRawBufferPointer? { givesBefore(column) ? before[column] : nil }

  /// Returns the new value of a column, or the old value if the column is unchanged; nil if unknown.
  func new(_ column: Int) -> UnsafeRawBufferPointer? { givesAfter(column) ? after[column] : old(column) }

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
  /// For each input column, whether NaN and infinities are refused, because SQLite would calculate with 0 instead.
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

  /// Loads the row to evaluate. An unknown value becomes NULL, so the caller must not evaluate an expression that uses
  /// this value.
  /// - Parameter value: A function that returns the encoded value of a column; nil if unknown.
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

  func computed(_ body: (Int, ColumnView) throws -> Void) throws {
    guard let calculator = plan.calculator, !plan.computed.isEmpty else { return }
    try evaluating { try calculator.values(ReshapePlan.computedGroup, body) }
  }

  private func evaluating<T>(_ body: () throws -> T) throws -> T {
    do { return try body() } catch let error as SQLiteError { throw Failure(message: error.message) }
  }
}
