import Changes
import Explaining
import Foundation
import Testing

@Suite struct ErrorCodeTests {
  /// Returns the page of the repository.
  private func page() throws -> String {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    return try String(contentsOf: root.appendingPathComponent("docs/reference/errors.md"), encoding: .utf8)
  }

  @Test(arguments: ErrorCode.allCases)
  func `the page of errors names the code, its exit status and its text`(code: ErrorCode) throws {
    let page = try page()
    #expect(page.contains("| [`\(code.rawValue)`](#\(code.rawValue)) | \(code.exitStatus) |"))
    #expect(page.contains("\n## \(code.rawValue)\n"))
    #expect(page.contains(code.explanation.why), "make docs/reference/errors.md again: cairn explain --markdown")
    for step in code.explanation.what { #expect(page.contains(". \(step)\n")) }
  }

  @Test func `the page of errors names no other code`() throws {
    let sections = try page().split(separator: "\n").filter { $0.hasPrefix("## ") }.map { String($0.dropFirst(3)) }
    #expect(sections == ErrorCode.allCases.map(\.rawValue))
  }

  @Test func `codes are unique, in lower case and without blanks`() {
    let codes = ErrorCode.allCases.map(\.rawValue)
    #expect(Set(codes).count == codes.count)
    for code in codes {
      #expect(!code.isEmpty && code.utf8.allSatisfy { (0x61...0x7a).contains($0) || $0 == 0x2d }, "\(code)")
    }
  }

  @Test(arguments: ErrorCode.allCases)
  func `an explanation says what, why and what to do`(code: ErrorCode) {
    let explanation = code.explanation
    #expect(!explanation.title.isEmpty && !explanation.title.hasSuffix(".") && !explanation.title.contains("\n"))
    #expect(explanation.why.count > 80 && explanation.why.hasSuffix(".") && !explanation.why.contains("  "))
    #expect(!explanation.why.contains("\n"))
    #expect(!explanation.what.isEmpty)
    for step in explanation.what { #expect(step.hasSuffix(".") && !step.contains("\n") && !step.contains("  ")) }
  }

  @Test func `two codes do not share an explanation`() {
    let titles = ErrorCode.allCases.map(\.explanation.title)
    #expect(Set(titles).count == titles.count)
  }

  @Test(arguments: ErrorCode.allCases)
  func `an exit status is one of sysexits`(code: ErrorCode) { #expect((64...78).contains(code.exitStatus)) }
}
