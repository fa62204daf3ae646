import Testing

@testable import Conflicts

@Suite struct TextMergeTests {
  private func merged(_ base: String, _ one: String, _ other: String) -> String {
    String(decoding: TextMerge.merged(base: Array(base.utf8), Array(one.utf8), Array(other.utf8)), as: UTF8.self)
  }

  @Test(arguments: [
    // Neither, or one of both, changed something.
    ("a\nb", "a\nb", "a\nb", "a\nb"), ("a\nb", "a\nB", "a\nb", "a\nB"), ("a\nb", "a\nb", "b", "b"), ("", "", "a", "a"),
    // Both, at different places.
    ("a\nb\nc", "A\nb\nc", "a\nb\nC", "A\nb\nC"), ("a\nb\nc", "x\na\nb\nc", "a\nb\nc\ny", "x\na\nb\nc\ny"),
    ("a\nb\nc\nd", "b\nc\nd", "a\nb\nc", "b\nc"), ("a\nb\nc", "a\nc", "a\nb\nc\nd", "a\nc\nd"),
    // Both alike.
    ("a\nb", "a\nB", "a\nB", "a\nB"), ("a\nb\nc", "a\nx\nb\nc", "a\nx\nb\nC", "a\nx\nb\nC"), ("a", "", "", ""),
    // Both the same lines, or at the same place: the first one's come first, common lines appear once.
    ("a\nb\nc", "a\nB1\nc", "a\nB2\nc", "a\nB1\nB2\nc"), ("a", "a\nx", "a\ny", "a\nx\ny"), ("", "x", "y", "x\ny"),
    ("a\nb", "a\nx\ny\nb", "a\nx\nz\nb", "a\nx\ny\nz\nb"), ("a\nb", "a\ny\nx\nb", "a\nz\nx\nb", "a\ny\nz\nx\nb"),
    // One took out what the other one changed.
    ("a\nb\nc", "a\nc", "a\nB\nc", "a\nB\nc"), ("one", "", "two", "\ntwo"),
    // Ends of lines and empty lines are as they are.
    ("a\n", "a\nb\n", "a\n", "a\nb\n"), ("a\r\nm\r\nb", "a\r\nm\r\nB", "A\r\nm\r\nb", "A\r\nm\r\nB"),
    // Lines side by side are changed at the same place.
    ("a\nb", "a\nB", "A\nb", "a\nB\nA\nb"), ("\n\n", "\n", "\n\n\n", "\n\n\n"),
  ])
  func `two texts that came of one`(base: String, one: String, other: String, expected: String) {
    #expect(merged(base, one, other) == expected)
  }

  @Test func `large differences are one change`() {
    let base = (0..<3000).map { "line \($0)" }
    let one = base.map { $0 + " one" }
    let other = base.map { $0 + " other" }
    func text(_ lines: [String]) -> String { (["begin"] + lines + ["end"]).joined(separator: "\n") }
    #expect(merged(text(base), text(one), text(other)) == text(one + other))
    #expect(merged(text(base), text(one), text(base)) == text(one))
  }
}
