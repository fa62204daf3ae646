import Changes
import Reshaping
import Testing

@Suite struct ConflictExpressionTests {
  private func exact(_ text: String) -> Value { .exact(Array(text.utf8)) }

  @Test func `an expression sees both values, and what they came from`() throws {
    func value(_ text: String, _ local: Value, _ incoming: Value, _ before: Value? = nil) throws -> Value {
      try ConflictExpression(text).value(local: local, incoming: incoming, before: before)
    }
    #expect(try value("max(local, incoming)", .integer(9), .integer(10)) == .integer(10))
    #expect(try value("local + incoming - before", .real(1.5), .integer(3), .integer(1)) == .real(3.5))
    #expect(try value("coalesce(before, 'none')", .null, .text("b")) == .text("none"))
    #expect(try value("local || '/' || incoming", .text("a"), .text("b"), .text("c")) == .text("a/b"))
    // PostgreSQL's numbers are numbers, its other values texts; what comes is as it reads it.
    #expect(try value("max(local, incoming)", exact("9"), exact("10")) == exact("10"))
    #expect(try value("local * 2", exact("1.25"), exact("1.50")) == exact("2.5"))
    #expect(try value("min(local, incoming)", exact("2026-01-02"), exact("2026-01-01")) == exact("2026-01-01"))
    #expect(try value("before", exact("x"), exact("y")) == .null)
  }

  @Test(arguments: ["old", "random()", "local +", "(SELECT 1)", "datetime('now')"])
  func `what is none is refused`(text: String) throws {
    let error = #expect(throws: CairnError.self) {
      _ = try ConflictExpression(text).value(local: .integer(1), incoming: .integer(2), before: nil)
    }
    #expect(error?.code == .ruleRefused && error?.message.contains("sql:\(text)") == true)
  }
}
