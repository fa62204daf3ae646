import Changes
import Trails

/// The transactions of one apply that are in quarantine, and the errors of transactions that must go there.
final class QuarantineStore {
  /// The interval at which apply reads the operator's requests about transactions in quarantine, in ms.
  static let lookMilliseconds: Int64 = 500

  private let trail: TrailName
  let puts: Bool
  private(set) var quarantine = Quarantine()
  private var failed: [UInt64: CairnError] = [:]
  private var scan: WriteSetScan

  /// Creates the state of an apply's quarantine, without any transaction.
  ///
  /// - Parameter puts: Whether refused transactions go into quarantine.
  init(_ trail: TrailName, folder: String, puts: Bool) {
    (self.trail, self.puts) = (trail, puts)
    scan = WriteSetScan(folder)
  }

  func load(_ all: [QuarantinedTransaction], of id: TrailID) {
    quarantine = Quarantine(all, of: trail, id)
  }

  var count: Int { quarantine.transactions.count }

  /// Returns whether the transaction that failed with an error goes into quarantine. If so, stores the error until
  /// apply comes to the transaction again.
  func takes(_ error: CairnError, of number: UInt64) -> Bool {
    guard puts, Self.isOfRows(error), failed[number] == nil else { return false }
    failed[number] = error
    return true
  }

  static func isOfRows(_ error: CairnError) -> Bool {
    [.rowMissing, .rowDiffers, .rowExists, .constraintFailed, .valueMisfit, .conflictStopped, .tableForbidden]
      .contains(error.code)
  }

  /// Returns the quarantine entry for the transaction that begins after `border`; nil if apply applies it.
  ///
  /// - Throws: The transaction's error, if the transaction has a schema change or a part of a refresh, and so cannot go
  ///   into quarantine.
  func look(
    _ header: TransactionHeader, at position: Position, behind border: @autoclosure () -> Checkpoint,
    now: @autoclosure () -> Int64
  )
    throws -> QuarantinedTransaction?
  {
    let error = failed[header.number]
    guard error != nil || !quarantine.isEmpty else { return nil }
    let border = border()
    let writeSet = try scan.next(behind: border)
    let holder = quarantine.holder(of: writeSet, number: header.number)
    guard error != nil || holder != nil else { return nil }
    var one = QuarantinedTransaction(
      trail: trail, number: header.number, position: position, border: border, at: now(), code: "", message: "",
      hint: "",
      writeSet: writeSet)
    if let holder {
      one.wait(for: holder)
    } else if let error {
      guard writeSet.isOfRows else { throw error }
      one.explain(error)
    }
    return one
  }

  /// Adds a transaction in memory. If its commit to the quarantine log fails, the caller must load the log again.
  func add(_ one: QuarantinedTransaction) { quarantine.add(one) }

  func contains(_ number: UInt64) -> Bool { quarantine.contains(number) }

  func forgetFailed(through number: UInt64) { failed = failed.filter { $0.key > number } }
}
