import Changes

/// A transaction that apply has put aside: one that the target does not take, or one that waits for another.
package struct QuarantinedTransaction: Sendable {
  /// What a person has decided, and apply is to do.
  package enum Wish: String, CaseIterable, Sendable {
    case retry
    case discard
  }

  /// Its number in the target's table; 0: not kept yet.
  package var id: Int64 = 0
  package var trail: TrailName
  package var number: UInt64
  /// Where it begins, and the border before it.
  package var position: Position
  package var border: Checkpoint
  /// When it was put aside, µs since 1970 UTC.
  package var at: Int64
  package var code: String
  package var message: String
  package var hint: String
  /// The one for which it waits; nil: the target does not take it.
  package var heldBy: Int64?
  package var wish: Wish?
  package var footprint: Footprint

  /// The tables whose rows it writes, or refers to.
  package var tables: [String] { footprint.tables.sorted().map(\.text) }

  /// As people are told when it is put aside.
  var notice: String {
    heldBy == nil
      ? "transaction \(number) of trail \(trail) is in quarantine as \(id): [\(code)] \(message)"
      : "\(message): it waits in quarantine as \(id)"
  }

  /// What the target has against it, or for which one it waits.
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

/// What of one trail is in quarantine, in the order of the trail.
struct Quarantine {
  private(set) var transactions: [QuarantinedTransaction] = []
  /// Of all of them: what touches nothing of it depends on none.
  private var footprint = Footprint()

  init(_ transactions: [QuarantinedTransaction] = []) {
    self.transactions = transactions.sorted { $0.number < $1.number }
    for one in transactions { footprint.include(one.footprint) }
  }

  /// Of those that the target has, the ones of a trail; what an earlier trail of that name left there is not among them.
  init(_ all: [QuarantinedTransaction], of trail: TrailName, _ id: TrailID) {
    self.init(all.filter { $0.trail == trail && $0.border.trail == id })
  }

  var isEmpty: Bool { transactions.isEmpty }

  func contains(_ number: UInt64) -> Bool { transactions.contains { $0.number == number } }

  /// The first one that a later transaction has to come behind.
  func holder(of footprint: Footprint, number: UInt64) -> QuarantinedTransaction? {
    guard footprint.depends(on: self.footprint) else { return nil }
    return transactions.first { $0.number < number && footprint.depends(on: $0.footprint) }
  }

  mutating func add(_ transaction: QuarantinedTransaction) {
    transactions.append(transaction)
    footprint.include(transaction.footprint)
    transactions.sort { $0.number < $1.number }
  }

  /// What apply is to do with one of them.
  enum Step {
    case forget(QuarantinedTransaction)
    case apply(QuarantinedTransaction)
    /// It waits for another one than before.
    case hold(QuarantinedTransaction, by: QuarantinedTransaction)
  }

  /// The first thing that is to be done; nil: nothing.
  var step: Step? {
    for transaction in transactions {
      if transaction.wish == .discard { return .forget(transaction) }
      let isLost = transaction.heldBy.map { id in !transactions.contains { $0.id == id } } ?? false
      guard transaction.wish == .retry || isLost else { continue }
      guard let holder = holder(of: transaction.footprint, number: transaction.number) else {
        return .apply(transaction)
      }
      if holder.id != transaction.heldBy || transaction.wish != nil { return .hold(transaction, by: holder) }
    }
    return nil
  }

  /// Nothing behind this place may be purged.
  var needs: Position? { transactions.map(\.border.position).min() }

  /// The transaction before the first one: what came since may come out of its order.
  var heldThrough: UInt64? { heldThrough(besides: nil) }

  /// The same once `one` has been applied.
  func heldThrough(besides one: QuarantinedTransaction?) -> UInt64? {
    transactions.first { $0.id != one?.id }.map { $0.number - 1 }
  }
}
