import Changes
import Configuring
import Testing

/// A conf with one thing wrong: the problem that is reported, and that the hint mends it.
struct BrokenConf: Sendable, CustomTestStringConvertible {
  /// In the good conf, what is replaced by what; an empty one is the end.
  let change: (from: String, to: String)
  let place: String
  let code: ErrorCode
  let message: String
  let hint: String
  /// In the broken conf, what the hint says to write in the place of what.
  let mend: (from: String, to: String)

  var testDescription: String { "\(place) \(message)" }

  var text: String {
    change.from.isEmpty ? Conf.good + change.to : BrokenConf.replaced(Conf.good, change.from, change.to)
  }

  var mended: String { BrokenConf.replaced(text, mend.from, mend.to) }

  init(
    _ from: String, _ to: String, at place: String, _ code: ErrorCode, _ message: String, _ hint: String,
    mend: (String, String)
  ) {
    (change, self.place, self.code, self.message, self.hint, self.mend) = ((from, to), place, code, message, hint, mend)
  }

  private static func replaced(_ text: String, _ from: String, _ to: String) -> String {
    guard let range = text.firstRange(of: from) else { return text }
    return text.replacingCharacters(in: range, with: to)
  }
}

extension String {
  fileprivate func replacingCharacters(in range: Range<Index>, with text: String) -> String {
    self[..<range.lowerBound] + text + self[range.upperBound...]
  }
}

@Suite struct BrokenConfTests {
  @Test(arguments: BrokenConf.all)
  func `a broken conf is refused at its place, and the hint mends it`(_ row: BrokenConf) throws {
    let problems = Conf.load(row.text).problems
    try #require(problems.count == 1, "\(problems)")
    let problem = problems[0]
    #expect("\(problem.place)" == "cairn.toml" + (row.place.isEmpty ? "" : ":\(row.place)"))
    #expect(problem.code == row.code)
    #expect(problem.message.contains(row.message), "\(problem.message)")
    #expect(problem.hint.contains(row.hint), "\(problem.hint)")
    #expect(problem.code.exitStatus == 78)
    #expect(row.mended != row.text && !row.hint.isEmpty)
    let mended = Conf.load(row.mended)
    #expect(mended.problems.isEmpty && mended.configuration != nil, "\(mended.problems)")
  }

  @Test func `there are eighty of them`() { #expect(BrokenConf.all.count >= 80) }
}
