import Changes
import Conflicts

/// A change that comes to a target on a way that leads only there, where the row is not what the source says: somebody
/// has written to it at the target. The source's row stands, and what was there is told.
///
/// Pure: what is there is asked for by key.
struct Meeting: Equatable {
  /// Values in the order of the target's columns; nil: the trail does not say.
  typealias Row = RowVersion.Row

  /// One key whose row becomes another one.
  struct Step: Equatable {
    var key: [Value]
    /// Nil: the row is as the source says, and there is nothing to tell.
    var kind: Conflict.Kind?
    /// As it is at the target; nil: not there.
    var local: [Value]?
    /// As the source has it; nil: not there.
    var incoming: Row?
    /// As the source had it.
    var before: Row?
    /// As it is to be; nil: not there.
    var settled: Row?
    /// The trail does not say enough of the row to put it there.
    var isPassedOver: Bool { settled == nil && local == nil && incoming != nil }
  }

  /// What is to be done, in this order.
  let steps: [Step]

  /// `key`: where the columns of the key stand. Nil where the trail does not say which row it is.
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

  /// A row leaves one key and comes to another: each of them may have been written to.
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
  /// What is not given here is as in a row that is there.
  func filled(from row: [Value?]) -> [Value?] { zip(self, row).map { $0 ?? $1 } }
}

extension [Value] {
  fileprivate func differs(from row: [Value?]) -> Bool { zip(self, row).contains { $1 != nil && $0 != $1 } }
}
