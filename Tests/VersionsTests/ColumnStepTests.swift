import Changes
import Testing

@testable import Versions

/// Changes by which columns and tables lost their names, as many as are kept in memory.
@Suite struct ColumnStepTests {
  private func step(_ number: Int, name: String) throws -> ColumnStep {
    func table(_ column: String) -> TableSchema {
      TableSchema(epoch: 0, engine: .sqlite, name: "t", columns: [.init(name: column)])
    }
    let step = ColumnStep(
      table("old\(number)"), table(name), origins: [0], applied: "", number: UInt64(number), of: "till.shop")
    return try #require(step)
  }

  @Test func `the last of many short names are kept`() throws {
    var steps = ColumnSteps()
    for number in 0..<1200 { try steps.take([step(number, name: "new")]) }
    #expect(steps.all.map(\.number) == (200..<1200).map(UInt64.init))
    try steps.take([step(1199, name: "new")])
    #expect(steps.all.count == 1000, "a change that is read again is known")
  }

  @Test func `as many long names are kept as fit into 4 MiB`() throws {
    var steps = ColumnSteps()
    let name = String(repeating: "n", count: 100_000)
    for number in 0..<300 { try steps.take([step(number, name: name)]) }
    #expect((40...42).contains(steps.all.count), "\(steps.all.count)")
    #expect(steps.all.last?.number == 299)
    for number in 300..<1400 { try steps.take([step(number, name: "new")]) }
    #expect(steps.all.count == 1000, "room is free again when long ones have gone")
  }
}
