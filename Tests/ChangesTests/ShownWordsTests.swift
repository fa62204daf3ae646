import Foundation
import Testing

@testable import Changes

/// Names in commands and lines of a conf that people copy from hints.
@Suite struct ShownWordsTests {
  static let names = [
    "plain", "it's", "a'; touch pwned; '", "$(touch pwned)", "`touch pwned`", "a\"b", "a\\", "'\u{301}", "\u{600}'",
    "é", "", "a b\tc",
  ]

  @Test(arguments: names) func `a shell reads the word as it was`(name: String) throws {
    let shell = Process()
    shell.executableURL = URL(fileURLWithPath: "/bin/sh")
    shell.arguments = ["-c", "printf %s " + name.shellWord]
    let pipe = Pipe()
    shell.standardOutput = pipe
    try shell.run()
    let output = try pipe.fileHandleForReading.readToEnd() ?? Data()
    shell.waitUntilExit()
    #expect(Array(output) == Array(name.utf8))
  }

  @Test func `a text of a conf has its quotes and control characters escaped`() {
    #expect("plain".confText == "\"plain\"")
    #expect("a\"b\\c".confText == "\"a\\\"b\\\\c\"")
    #expect("a\nb\u{7f}".confText == "\"a\\u000ab\\u007f\"")
  }

  @Test func `a number has its noun in singular or plural`() {
    #expect(1.counted("row") == "1 row")
    #expect(0.counted("row") == "0 rows")
    #expect(UInt64(2).counted("apply", "applies") == "2 applies")
    #expect(1.counted("table waits", "tables wait") == "1 table waits")
    #expect(Int64(-1).counted("row") == "-1 rows")
  }

  @Test func `tables are left out in the conf and on the command line`() {
    #expect(["note"].leftOut == "tables = [\"*\", \"!note\"] (--tables '*,!note')")
    #expect(["a", "it's"].leftOut == "tables = [\"*\", \"!a\", \"!it's\"] (--tables '*,!a,!it'\\''s')")
  }
}
