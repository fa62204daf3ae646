import Changes
import Trails

/// What one apply has put aside, and which transactions it has to put aside.
///
/// A transaction that the target does not take fails once: its group is rolled back, and done again without it.
final class QuarantineShelf {
  /// How often it is looked whether somebody wants something of what is put aside.
  static let lookMilliseconds: Int64 = 500

  private let trail: TrailName
  let puts: Bool
  private(set) var quarantine = Quarantine()
  /// Transactions that were tried, with what the target has against them.
  private var failed: [UInt64: CairnError] = [:]
  private var scan: FootprintScan

  /// `puts`: whether what fails is put aside; what was put aside already holds others back all the same.
  init(_ trail: TrailName, folder: String, puts: Bool) {
    (self.trail, self.puts) = (trail, puts)
    scan = FootprintScan(folder)
  }

  /// As the target has it.
  func load(_ all: [QuarantinedTransaction], of id: TrailID) {
    quarantine = Quarantine(all, of: trail, id)
  }

  var count: Int { quarantine.transactions.count }

  /// An error that has its reason in rows: true where its transaction is put aside when the group is done again.
  func takes(_ error: CairnError, of number: UInt64) -> Bool {
    guard puts, Self.isOfRows(error), failed[number] == nil else { return false }
    failed[number] = error
    return true
  }

  static func isOfRows(_ error: CairnError) -> Bool {
    [.rowMissing, .rowDiffers, .rowExists, .constraintFailed, .valueMisfit, .conflictStopped, .tableForbidden]
      .contains(error.code)
  }

  /// What is to be put aside of the transaction that begins behind `border`; nil: it is to be applied. Throws the error
  /// for which it failed where it changes more than rows.
  func look(
    _ header: TransactionHeader, at position: Position, behind border: @autoclosure () -> Checkpoint,
    now: @autoclosure () -> Int64
  )
    throws -> QuarantinedTransaction?
  {
    let error = failed[header.number]
    guard error != nil || !quarantine.isEmpty else { return nil }
    let border = border()
    let footprint = try scan.next(behind: border)
    let holder = quarantine.holder(of: footprint, number: header.number)
    guard error != nil || holder != nil else { return nil }
    var one = QuarantinedTransaction(
      trail: trail, number: header.number, position: position, border: border, at: now(), code: "", message: "",
      hint: "",
      footprint: footprint)
    if let holder {
      one.wait(for: holder)
    } else if let error {
      guard footprint.isOfRows else { throw error }
      one.explain(error)
    }
    return one
  }

  /// In the open transaction of the target; where that is rolled back, ``load(_:of:)`` follows.
  func add(_ one: QuarantinedTransaction) { quarantine.add(one) }

  /// Whether a table that catches up leaves a transaction out.
  func contains(_ number: UInt64) -> Bool { quarantine.contains(number) }

  /// Behind a commit.
  func forgetFailed(through number: UInt64) { failed = failed.filter { $0.key > number } }
}
