import Changes

/// A transaction in quarantine: the target refuses it, or it depends on another one in quarantine.
package struct QuarantinedTransaction: Sendable {
  /// A request of the operator about the transaction, which apply has to carry out.
  package enum Wish: String, CaseIterable, Sendable {
    case retry
    case discard
  }

  /// The number of the entry in the target's quarantine log; 0: not stored yet.
  package var id: Int64 = 0
  package var trail: TrailName
  package var number: UInt64
  /// The position in the trail at which the transaction begins.
  package var position: Position
  package var border: Checkpoint
  package var at: Int64
  package var code: String
  package var message: String
  package var hint: String
  /// The ``id`` of the quarantined transaction on which this one depends; nil: the target refuses this one.
  package var heldBy: Int64?
  package var wish: Wish?
  package var writeSet: WriteSet

  package var tables: [String] { writeSet.tables.sorted().map(\.text) }

  var notice: String {
    heldBy == nil
      ? "transaction \(number) of trail \(trail) is in quarantine as \(id): [\(code)] \(message)"
      : "\(message): it waits in quarantine as \(id)"
  }

  mutating func explain(_ error: CairnError) {
    (code, message, hint, heldBy, wish) = (error.code.rawValue, error.message, error.hint, nil, nil)
  }

  mutating func wait(for holder: QuarantinedTransaction) {
    heldBy = holder.id
    code = ErrorCode.quarantineHeld.rawValue
    message =
      "transaction \(number) of trail \(trail) writes to rows of transaction \(holder.number), which is in quarantine, or depends on them"
    hint = "retry or discard quarantine \(holder.id): this one is tried again then"
    wish = nil
  }
}

/// The transactions of one trail in quarantine, in the order of the trail.
struct Quarantine {
  private(set) var transactions: [QuarantinedTransaction] = []
  private var writeSet = WriteSet()

  init(_ transactions: [QuarantinedTransaction] = []) {
    self.transactions = transactions.sorted { $0.number < $1.number }
    for one in transactions { writeSet.include(one.writeSet) }
  }

  /// Selects the transactions of one trail from the entries of the quarantine log. Ignores entries of an earlier trail
  /// with the same name.
  init(_ all: [QuarantinedTransaction], of trail: TrailName, _ id: TrailID) {
    self.init(all.filter { $0.trail == trail && $0.border.trail == id })
  }

  var isEmpty: Bool { transactions.isEmpty }

  func contains(_ number: UInt64) -> Bool { transactions.contains { $0.number == number } }

  var numbers: Set<UInt64> { Set(transactions.map(\.number)) }

  /// Returns the first quarantined transaction before `number` on which the given changes depend.
  func holder(of writeSet: WriteSet, number: UInt64) -> QuarantinedTransaction? {
    guard writeSet.depends(on: self.writeSet) else { return nil }
    return transactions.first { $0.number < number && writeSet.depends(on: $0.writeSet) }
  }

  mutating func add(_ transaction: QuarantinedTransaction) {
    transactions.append(transaction)
    writeSet.include(transaction.writeSet)
    transactions.sort { $0.number < $1.number }
  }

  /// The next action of apply on a transaction in quarantine.
  enum Step {
    case forget(QuarantinedTransaction)
    case apply(QuarantinedTransaction)
    /// The transaction now depends on another quarantined transaction, and must wait for that one.
    case hold(QuarantinedTransaction, by: QuarantinedTransaction)
  }

  var step: Step? {
    for transaction in transactions {
      if transaction.wish == .discard { return .forget(transaction) }
      let isLost = transaction.heldBy.map { id in !transactions.contains { $0.id == id } } ?? false
      guard transaction.wish == .retry || isLost else { continue }
      guard let holder = holder(of: transaction.writeSet, number: transaction.number) else {
        return .apply(transaction)
      }
      if holder.id != transaction.heldBy || transaction.wish != nil { return .hold(transaction, by: holder) }
    }
    return nil
  }

  /// The earliest position in the trail from which a quarantined transaction must still be read; nil if none is in
  /// quarantine.
  var needs: Position? { transactions.map(\.border.position).min() }

  /// The last transaction before the first one in quarantine; nil if none is in quarantine.
  var heldThrough: UInt64? { heldThrough(besides: nil) }

  func heldThrough(besides one: QuarantinedTransaction?) -> UInt64? {
    transactions.first { $0.id != one?.id }.map { $0.number - 1 }
  }
}
