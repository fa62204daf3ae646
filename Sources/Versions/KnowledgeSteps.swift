/// What the transactions of one origin knew of another one: from which of them on it knew how many of that one's.
///
/// It keeps the last `stepsMax` steps or so: where there are more, every other one is left out, so that a transaction may
/// seem to have known less than it did, and never more.
struct KnowledgeSteps {
  private static let stepsMax = 4096
  private var numbers: [UInt64] = []
  private var known: [UInt64] = []

  /// A transaction and what it knew, in the order of their numbers; one that came before changes nothing.
  mutating func add(_ number: UInt64, knows: UInt64) {
    if let last = numbers.last {
      guard number > last, knows > known[known.count - 1] else { return }
    }
    if numbers.count >= Self.stepsMax { thin() }
    numbers.append(number)
    known.append(knows)
  }

  /// What a transaction knew.
  func known(at number: UInt64) -> UInt64 {
    let index = index(behind: number)
    return index == 0 ? 0 : known[index - 1]
  }

  /// Nothing is asked for before `number` any more.
  mutating func forget(before number: UInt64) {
    let count = index(behind: number) - 1
    // Not each time: what stands behind moves.
    guard count > 64, count > numbers.count / 2 else { return }
    numbers.removeFirst(count)
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
    known = kept.map { known[$0] }
  }
}
