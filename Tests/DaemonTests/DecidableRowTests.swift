import Applying
import Changes
import ControlAPI
import Foundation
import Replicating
import Testing

@testable import Daemon

@Suite struct DecidableRowTests {
  private static let at = Position(segment: 1, offset: 290)
  private static let row = StoppedRow(table: "item", key: "id=7", position: at, transaction: 4)

  private func worker(
    _ code: ErrorCode = .rowDiffers, _ state: NodeStatus.WorkerState = .failed, row: StoppedRow? = row
  ) -> NodeStatus.Worker {
    var worker = NodeStatus.Worker(WorkerName(.apply, "erp"), state)
    worker.problem = .init(code: code.rawValue, message: "it differs", hint: "", times: 1, row: row)
    return worker
  }

  private func refusal(
    _ worker: NodeStatus.Worker, _ verdict: RowDecision.Verdict = .skip, at: Position = at, goesBothWays: Bool = false
  ) -> CairnError? {
    do throws(CairnError) {
      _ = try DecidableRow(worker, goesBothWays: goesBothWays).row(verdict, at: at)
      return nil
    } catch { return error }
  }

  @Test(arguments: RowDecision.Verdict.allCases)
  func `the row at which the apply is stopped can be decided`(verdict: RowDecision.Verdict) throws {
    #expect(try DecidableRow(worker(), goesBothWays: false).row(verdict, at: Self.at) == Self.row)
  }

  @Test func `nothing else can be decided`() throws {
    let running = try #require(refusal(worker(.rowDiffers, .running)))
    #expect(running.code == .usage && running.message == "apply.erp is not stopped at a row: it is running")
    let other = try #require(refusal(worker(.trailDamaged, row: nil)))
    #expect(other.message.contains("it has failed with [trail-damaged] it differs"))
    let elsewhere = try #require(refusal(worker(), at: Position(segment: 1, offset: 291)))
    #expect(elsewhere.message.contains("is stopped at 00000001:00000122, table item, row id=7, and not at"))
    #expect(elsewhere.hint.contains("--at 00000001:00000122"))
    let nodes = try #require(refusal(worker(), goesBothWays: true))
    #expect(nodes.code == .unsupported && nodes.message.contains("would differ between the nodes"))
  }

  @Test(arguments: [ErrorCode.constraintFailed, .valueMisfit])
  func `a row that the target refuses cannot be taken`(code: ErrorCode) throws {
    let error = try #require(refusal(worker(code), .takeSource))
    #expect(error.code == .usage && error.hint.contains("'cairn skip erp --at 00000001:00000122'"))
    #expect(refusal(worker(code)) == nil)
    var copied = Self.row
    copied.isCopied = true
    #expect(refusal(worker(row: copied), .takeSource)?.code == .usage)
    #expect(refusal(worker(row: copied)) == nil)
  }

  // MARK: Hints

  private func error(_ code: ErrorCode, copied: Bool = false) -> CairnError {
    var context = ["table": "item", "key": "id=7", "position": "00000001:00000122", "transaction": "4"]
    if copied { context["copied"] = "yes" }
    return CairnError(code, "it failed", hint: "do this", context: context)
  }

  @Test func `the hint of an error names the commands with their arguments`() {
    let both = error(.rowMissing).decidable(by: "erp", goesBothWays: false).hint
    #expect(both.hasPrefix("do this; or decide this row: 'cairn skip erp --at 00000001:00000122'"), "\(both)")
    #expect(both.contains("'cairn take-source erp --at 00000001:00000122'"), "\(both)")
    for one in [error(.valueMisfit), error(.constraintFailed), error(.rowExists, copied: true)] {
      let hint = one.decidable(by: "erp", goesBothWays: false).hint
      #expect(hint.contains("'cairn skip erp") && !hint.contains("take-source"), "\(hint)")
    }
    #expect(error(.rowMissing).decidable(by: "erp", goesBothWays: true).hint == "do this")
    #expect(error(.schemaStopped).decidable(by: "erp", goesBothWays: false).hint == "do this")
    #expect(CairnError(.rowMissing, "", hint: "do this").decidable(by: "erp", goesBothWays: false).hint == "do this")
  }

  @Test func `the status carries the row`() throws {
    let known = try #require(worker().problem)
    #expect(NodeStatus.Problem(known.json) == known)
    var supervision = Supervision(startAt: 0)
    supervision.started(now: 0)
    supervision.ended(error(.rowDiffers), now: 1, jitter: 0)
    #expect(supervision.rest == .failed && supervision.failure?.row == Self.row)
  }

  // MARK: The stored decisions

  @Test func `decisions are stored until their transactions are committed`() throws {
    let state = "/tmp/cairn-decisions-\(UUID().uuidString.prefix(8))"
    defer { try? FileManager.default.removeItem(atPath: state) }
    let file = RowDecisionFile(state: state, apply: "erp")
    let trail = try #require(TrailID(Array(1...16)))
    func decision(_ offset: UInt64, _ transaction: UInt64, _ verdict: RowDecision.Verdict = .skip) -> RowDecision {
      let at = Position(segment: 1, offset: offset)
      return RowDecision(verdict, of: trail, at: at, transaction: transaction, by: "uid 1000 (ann)")
    }
    #expect(try file.decisions(of: trail) == [])
    try file.add(decision(10, 3), applied: 2)
    try file.add(decision(20, 3, .takeSource), applied: 2)
    #expect(try file.decisions(of: trail) == [decision(10, 3), decision(20, 3, .takeSource)])
    try file.add(decision(20, 3), applied: 2)
    #expect(try file.decisions(of: trail) == [decision(10, 3), decision(20, 3)])
    // A row of a later transaction may roll back the earlier one too.
    try file.add(decision(30, 5), applied: 2)
    #expect(try file.decisions(of: trail) == [decision(10, 3), decision(20, 3), decision(30, 5)])
    try file.add(decision(40, 6), applied: 3)
    #expect(try file.decisions(of: trail) == [decision(30, 5), decision(40, 6)])
    #expect(try file.decisions(of: #require(TrailID(Array(2...17)))) == [])
    try Data("rubbish\nskip x y z w\n\n".utf8).write(to: URL(fileURLWithPath: state + "/applies/erp.decisions"))
    #expect(try file.decisions(of: trail) == [])
  }
}
