import Changes

/// Checks that the records of a trail form whole transactions, without gaps in their numbers.
struct TransactionTracker {
  private(set) var lastNumber: UInt64
  /// The header of the last complete transaction, with the source position of its progress record.
  private(set) var lastHeader: TransactionHeader?
  private var current: TransactionHeader?
  private var changes: UInt64 = 0
  /// The number of records since the begin of the last transaction.
  private(set) var records: UInt64 = 0

  /// Starts the check after transaction `lastNumber`; 0 is the start of a trail.
  init(lastNumber: UInt64, lastHeader: TransactionHeader? = nil) {
    self.lastNumber = lastNumber
    self.lastHeader = lastHeader
  }

  var isOpen: Bool { current != nil }

  /// Checks the next record, and returns a description of the fault; nil if there is none.
  mutating func follow(_ record: Record) -> String? {
    switch record {
    case .begin(let header):
      if let current { return "transaction \(header.number) begins inside of transaction \(current.number)" }
      guard lastNumber < .max, header.number == lastNumber + 1 else {
        return "transaction \(header.number) follows transaction \(lastNumber)"
      }
      current = header
      (changes, records) = (0, 1)
    case .commit(let number, let counted):
      guard let current else { return "a commit without a begin" }
      guard number == current.number else { return "commit \(number) ends transaction \(current.number)" }
      guard counted == changes else { return "commit \(number) counts \(counted) changes, there are \(changes)" }
      lastNumber = number
      lastHeader = current
      self.current = nil
    case .change, .refreshRow: return followRow()
    case .progress(let sourcePosition, _):
      current?.sourcePosition = sourcePosition
      return followOther()
    default: return followOther()
    }
    return nil
  }

  /// Counts a row without decoding it, and returns a description of the fault; nil if there is none.
  mutating func followRow() -> String? {
    guard current != nil else { return "a row outside of a transaction" }
    changes += 1
    records += 1
    return nil
  }

  /// Counts a record that is neither a row nor a border, and returns a description of the fault; nil if there is none.
  mutating func followOther() -> String? {
    guard current != nil else { return "a record outside of a transaction" }
    records += 1
    return nil
  }
}
