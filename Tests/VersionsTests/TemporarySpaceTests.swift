import Changes
import Synchronization
import Testing

@testable import Versions

/// The disk space of temporary files.
@Suite struct TemporarySpaceTests {
  private func write(_ count: Int, _ bytes: Int, to file: SpillFile) throws {
    let row = [UInt8](repeating: 7, count: bytes)
    for hash in 0..<count { try row.withUnsafeBytes { try file.append(hash: UInt64(hash), $0) } }
  }

  /// The code of the error of `body`; nil if it throws none.
  private func code(_ body: () throws -> Void) -> ErrorCode? {
    do { try body() } catch let error as CairnError { return error.code } catch { return .bug }
    return nil
  }

  @Test func `rows of a transaction in conflict take no more than the limit`() throws {
    let space = TemporarySpace { nil }
    space.limit(16 << 20)
    let (one, other) = (try SpillFile(in: space), try SpillFile(in: space))
    try write(6, 1 << 20, to: one)
    try write(6, 1 << 20, to: other)
    #expect(space.used >= 12 << 20)
    // As one row that is changed 300 times by 1 MB.
    #expect(code { try write(300, 1 << 20, to: one) } == .diskBudget)
    #expect(space.used <= 16 << 20)
    #expect(one.count < 12)
  }

  @Test func `a row that is replaced takes its space once, and a closed file none`() throws {
    let space = TemporarySpace { nil }
    space.limit(8 << 20)
    do {
      let file = try SpillFile(in: space)
      try write(1, 1 << 20, to: file)
      let row = [UInt8](repeating: 8, count: 1 << 20)
      for _ in 0..<100 { try row.withUnsafeBytes { try file.replace(0, by: $0) } }
      #expect(space.used <= 8 << 20 && space.used > 0)
    }
    #expect(space.used == 0)
  }

  @Test func `half of the free space stays free`() throws {
    let space = TemporarySpace { 20 << 20 }
    let file = try SpillFile(in: space)
    #expect(code { try write(300, 1 << 20, to: file) } == .diskBudget)
    #expect(space.used <= 20 << 20)
  }

  @Test func `versions of rows count as well`() throws {
    let space = TemporarySpace { nil }
    space.limit(4 << 20)
    let store = try SpillStore(in: space)
    let found = code {
      for row in 0..<1_000_000 {
        try store.add(
          UInt64(row), WindowEntry(origin: 0, number: UInt64(row), clock: 1, begin: Position(segment: 1, offset: 1)))
      }
    }
    #expect(found == .diskBudget)
    #expect(store.count > 10_000 && space.used <= 4 << 20)
  }
}
