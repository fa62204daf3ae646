import Changes
import Conflicts

/// A change of a row that an application at a one-way target has written too.
///
/// The source's row wins, and the target's row is logged. This type only plans what to write.
struct SourceWins: Equatable {
  typealias Row = RowVersion.Row

  /// The change of one row, identified by its key.
  struct Step: Equatable {
    var key: [Value]
    /// The kind of the conflict; nil: no conflict, as the target's row equals the source's row before or after the
    /// change.
    var kind: Conflict.Kind?
    /// The row at the target before the change; nil: the row does not exist there.
    var local: [Value]?
    var incoming: Row?
    var before: Row?
    var settled: Row?
    /// Whether this step writes nothing: the target lacks the row, and the trail lacks values of the row.
    var isPassedOver: Bool { settled == nil && local == nil && incoming != nil }
  }

  let steps: [Step]

  /// Reads the target's rows with the key before and after a change, and plans what to write. Nil if the key is not
  /// known.
  ///
  /// - Parameter key: The indexes of the key's columns.
  /// - Parameter local: Returns the target's row with a key; nil if there is none.
  init?(before: Row?, after: Row?, key: [Int], local: ([Value]) throws -> [Value]?) rethrows {
    func values(_ row: Row) -> [Value]? {
      let values = key.compactMap { row[$0] }
      return values.count == key.count && !key.isEmpty ? values : nil
    }
    guard let after else {
      guard let before, let key = values(before) else { return nil }
      let there = try local(key)
      steps = [
        Step(
          key: key, kind: there.map { $0.differs(from: before) ? .deleteOriginDiffers : nil } ?? .deleteMissing,
          local: there, incoming: nil, before: before, settled: nil)
      ]
      return
    }
    let whole = before.map { after.filled(from: $0) } ?? after
    guard let new = values(whole) else { return nil }
    let there = try local(new)
    guard let before else {
      let settled = there.map { whole.filled(from: $0) } ?? whole
      steps = [
        Step(
          key: new, kind: there.flatMap { $0.differs(from: settled) ? .insertExists : nil }, local: there,
          incoming: whole, before: nil, settled: settled)
      ]
      return
    }
    let old = values(before) ?? new
    guard old != new else {
      steps = [Self.update(new, there, before, whole)]
      return
    }
    let left = try local(old)
    steps = Self.move(from: old, left, before, to: new, there, whole)
  }

  private static func update(_ key: [Value], _ there: [Value]?, _ before: Row, _ whole: Row) -> Step {
    var step = Step(key: key, local: there, incoming: whole, before: before)
    if let there {
      step.settled = whole.filled(from: there)
      step.kind = there.differs(from: before) && there.differs(from: whole) ? .updateOriginDiffers : nil
    } else {
      step.settled = whole.contains(nil) ? nil : whole
      step.kind = .updateMissing
    }
    return step
  }

  /// Returns the steps for an update that changes a row's key: one for the old key, one for the new key. An application
  /// may have written either row, or both.
  private static func move(
    from old: [Value], _ left: [Value]?, _ before: Row, to new: [Value], _ there: [Value]?, _ whole: Row
  ) -> [Step] {
    let row = (left ?? there).map { whole.filled(from: $0) } ?? whole
    var leaving = Step(key: old, local: left, incoming: row, before: before)
    leaving.kind = left.map { $0.differs(from: before) ? .updateOriginDiffers : nil } ?? .updateMissing
    if row.contains(nil) { return [leaving] }
    leaving.incoming = nil
    var coming = Step(key: new, local: there, incoming: row, before: before, settled: row)
    coming.kind = there.flatMap { $0.differs(from: row) ? .updateExists : nil }
    return [leaving, coming]
  }
}

extension [Value?] {
  /// Returns this row; its missing values are taken from `row`.
  func filled(from row: [Value?]) -> [Value?] { zip(self, row).map { $0 ?? $1 } }
}

extension [Value] {
  fileprivate func differs(from row: [Value?]) -> Bool { zip(self, row).contains { $1 != nil && $0 != $1 } }
}
