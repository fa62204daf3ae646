/// The transactions of another origin that the authors of one origin's transactions knew. For example, the step "number
/// 7, known 40" says that the author of transaction 7 knew the other origin's transactions up to 40.
struct KnowledgeSteps {
  private static let stepsMax = 4096
  private var numbers: [UInt64] = []
  private var clocks: [UInt64] = []
  private var known: [UInt64] = []

  /// Adds an entry: the author of transaction `number` knew another origin's transactions up to `knows`. Ignores an
  /// entry in which `number` or `knows` is not higher than in the last one.
  ///
  /// - Parameter clock: The clock of transaction `number`.
  mutating func add(_ number: UInt64, clock: UInt64, knows: UInt64) {
    if let last = numbers.last {
      guard number > last, knows > known[known.count - 1] else { return }
    }
    if numbers.count >= Self.stepsMax { thin() }
    numbers.append(number)
    clocks.append(clock)
    known.append(knows)
  }

  /// Returns up to which transaction of another origin the author of transaction `number` knew; 0 for none.
  func known(at number: UInt64) -> UInt64 { step(at: number).known }

  /// Returns the last entry at or before transaction `number`: the clock of its transaction, and another origin's last
  /// transaction that its author knew. Zeros if there is none.
  func step(at number: UInt64) -> (clock: UInt64, known: UInt64) {
    let index = index(behind: number)
    return index == 0 ? (0, 0) : (clocks[index - 1], known[index - 1])
  }

  /// Removes entries that only transactions before `number` need. Does nothing if there are few such entries.
  mutating func forget(before number: UInt64) {
    let count = index(behind: number) - 1
    // Not on each call, because the remaining elements move.
    guard count > 64, count > numbers.count / 2 else { return }
    numbers.removeFirst(count)
    clocks.removeFirst(count)
    known.removeFirst(count)
  }

  private func index(behind number: UInt64) -> Int {
    if let last = numbers.last, last <= number { return numbers.count }
    var (low, high) = (0, numbers.count)
    while low < high {
      let middle = (low + high) / 2
      if numbers[middle] <= number { low = middle + 1 } else { high = middle }
    }
    return low
  }

  private mutating func thin() {
    let kept = stride(from: 1, to: numbers.count, by: 2)
    numbers = kept.map { numbers[$0] }
    clocks = kept.map { clocks[$0] }
    known = kept.map { known[$0] }
  }
}
