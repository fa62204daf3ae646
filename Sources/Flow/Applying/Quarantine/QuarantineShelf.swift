import Changes
import Trails

/// The transactions that one apply has put aside, and those that it must put aside.
///
/// A transaction that the target refuses fails once: its group is rolled back, and done again without it.
final class QuarantineShelf {
  /// The interval at which apply looks for requests about transactions in quarantine, in ms.
  static let lookMilliseconds: Int64 = 500

  private let trail: TrailName
  let puts: Bool
  private(set) var quarantine = Quarantine()
  /// The transactions that failed, by number, with the target's error.
  private var failed: [UInt64: CairnError] = [:]
  private var scan: FootprintScan

  /// Creates an empty shelf.
  ///
  /// - Parameter puts: Whether apply puts failing transactions aside. If not, transactions that are already in
  ///   quarantine still hold others back.
  init(_ trail: TrailName, folder: String, puts: Bool) {
    (self.trail, self.puts) = (trail, puts)
    scan = FootprintScan(folder)
  }

  /// Reads the transactions in quarantine from the target's log.
  func load(_ all: [QuarantinedTransaction], of id: TrailID) {
    quarantine = Quarantine(all, of: trail, id)
  }

  var count: Int { quarantine.transactions.count }

  /// Returns whether an error is about rows. If so, its transaction is put aside when the group is applied again.
  func takes(_ error: CairnError, of number: UInt64) -> Bool {
    guard puts, Self.isOfRows(error), failed[number] == nil else { return false }
    failed[number] = error
    return true
  }

  static func isOfRows(_ error: CairnError) -> Bool {
    [.rowMissing, .rowDiffers, .rowExists, .constraintFailed, .valueMisfit, .conflictStopped, .tableForbidden]
      .contains(error.code)
  }

  /// Returns the transaction that begins after `border`, if apply must put it aside; nil: apply applies it.
  ///
  /// - Throws: The error for which the transaction failed, if it changes more than rows.
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

  /// Adds a transaction to quarantine, in the open transaction of the target. After a rollback, call ``load(_:of:)``.
  func add(_ one: QuarantinedTransaction) { quarantine.add(one) }

  /// Returns whether a catch-up skips a transaction because it is in quarantine.
  func contains(_ number: UInt64) -> Bool { quarantine.contains(number) }

  /// Forgets the errors of transactions up to a number, after their commit.
  func forgetFailed(through number: UInt64) { failed = failed.filter { $0.key > number } }
}
