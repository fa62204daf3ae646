import Changes
import ControlAPI
import Testing

@testable import Daemon

@Suite struct DaemonHintTests {
  private static let kinds = WorkerName.Kind.allCases

  /// The codes whose hint the daemon replaces, for each kind of worker, and whether the trail is another node's.
  private func replaces(_ code: ErrorCode, _ kind: WorkerName.Kind, _ isReceived: Bool) -> Bool {
    switch code {
    case .sourceWentBack, .sourceCaptured, .trailDamaged, .checkpointForeign: true
    case .trailForked: kind == .pump
    case .trailMissing: kind == .capture
    default: false
    }
  }

  @Test(arguments: ErrorCode.allCases, WorkerName.Kind.allCases)
  func `a hint of the daemon names commands of the daemon, and loses no other cause`(
    code: ErrorCode, kind: WorkerName.Kind
  ) {
    let worker = WorkerName(kind, "erp")
    for isReceived in [false, true] {
      let error = CairnError(code, "it failed", hint: "another cause; copy again: \(CopyHint.either): all tables")
      let hinted = error.hinted(for: worker, trail: "/state/hq.erp", isReceived: isReceived, copyBack: nil)
      #expect(hinted.code == code && hinted.message == error.message && hinted.remedy == error.remedy)
      #expect(!hinted.hint.contains("--existing") && !hinted.hint.contains("--state"), "\(hinted.hint)")
      if replaces(code, kind, isReceived) {
        #expect(!hinted.hint.contains("another cause"), "\(code) of \(worker): \(hinted.hint)")
      } else {
        let command = kind == .apply ? "run 'cairn copy erp'" : "run 'cairn copy APPLY' with an apply of this trail"
        #expect(hinted.hint == "another cause; copy again: \(command): all tables", "\(code) of \(worker)")
      }
      // A hint without that choice stays as it is.
      let plain = CairnError(code, "it failed", hint: "do this")
        .hinted(for: worker, trail: "/t", isReceived: isReceived, copyBack: nil)
      #expect((plain.hint == "do this") != replaces(code, kind, isReceived), "\(code) of \(worker): \(plain.hint)")
    }
  }

  @Test(arguments: [nil, "'cairn copy back'"])
  func `a checkpoint that is not in the trail has a way out for every worker`(
    copyBack: String?
  ) {
    func hint(_ kind: WorkerName.Kind, _ isReceived: Bool) -> String {
      CairnError(.checkpointForeign, "it failed", hint: "x")
        .hinted(for: WorkerName(kind, "erp"), trail: "/state/hq.erp", isReceived: isReceived, copyBack: copyBack).hint
    }
    for isReceived in [true, false] { #expect(hint(.apply, isReceived).contains("run 'cairn copy erp'")) }
    #expect(hint(.pump, true).contains("the pump fetches the trail again"))
    #expect(hint(.capture, false).contains("cairn detach"))
    for text in [hint(.apply, true), hint(.capture, false)] {
      #expect(text.contains("run 'cairn copy back' first") == (copyBack != nil), "\(text)")
    }
  }

  @Test(arguments: [ErrorCode.trailDamaged, .checkpointForeign])
  func `an apply that cannot read another trail names that trail, and tries again`(code: ErrorCode) throws {
    let own = TrailName(origin: "dev", name: "s")
    func outcome(_ trail: String?) -> CairnError? {
      CairnError(code, "it failed", hint: "x", context: trail.map { ["trail": $0] } ?? [:])
        .ofOtherTrail(than: own, at: "hub") { "/state/\($0)" }
    }
    for trail in [nil, "dev.s", "no name"] { #expect(outcome(trail) == nil) }
    for trail in ["evil.s", "hub.tw"] {
      let error = try #require(outcome(trail))
      #expect(error.code == code && error.remedy == .retry && !error.hint.contains("dev.s"))
      #expect(error.hint.contains(code == .trailDamaged ? "/state/\(trail)" : trail), "\(error.hint)")
      #expect(!error.hint.contains("cairn copy dev"))
    }
    let other = CairnError(.rowMissing, "x", hint: "x", context: ["trail": "evil.s"])
    #expect(other.ofOtherTrail(than: own, at: "hub") { "\($0)" } == nil)
  }
}
