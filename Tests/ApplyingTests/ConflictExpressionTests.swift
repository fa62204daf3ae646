import Changes
import Conflicts
import Testing

@testable import Applying

@Suite struct ConflictExpressionTests {
  private func exact(_ text: String) -> Value { .exact(Array(text.utf8)) }

  @Test func `an expression sees both values, and what they came from`() throws {
    func value(_ text: String, _ local: Value, _ incoming: Value, _ before: Value? = nil) throws -> Value {
      try ConflictExpression(text, columns: ["stock"]).value(
        MetRows(local: [local], incoming: [incoming], before: [before], column: 0))
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
  func `a text that is no expression is refused`(text: String) throws {
    let error = #expect(throws: CairnError.self) {
      _ = try ConflictExpression(text, columns: ["stock"]).value(
        MetRows(local: [.integer(1)], incoming: [.integer(2)], before: nil, column: 0))
    }
    #expect(error?.code == .ruleRefused && error?.message.contains("sql:\(text)") == true)
  }

  @Test func `a valid expression that fails for the values of a row is an error of that row`() throws {
    let rule = try ConflictExpression("json_patch(local, incoming)", columns: ["stock"])
    let good = MetRows(
      local: [.text(Array("{}".utf8))], incoming: [.text(Array("{\"a\":1}".utf8))], before: nil, column: 0)
    #expect(try rule.value(good) == .text(Array("{\"a\":1}".utf8)))
    let bad = MetRows(local: [.text(Array("{".utf8))], incoming: [.text(Array("{}".utf8))], before: nil, column: 0)
    let error = #expect(throws: CairnError.self) { _ = try rule.value(bad) }
    #expect(error.map(QuarantineStore.isOfRows) == true, "\(error as Any)")
  }

  @Test func `it sees the other columns of the rows, by their names`() throws {
    let columns = ["id", "stock", "Price now"]
    let rows = MetRows(
      local: [.integer(1), .integer(5), .real(2)], incoming: [.integer(1), .integer(7), exact("1.50")],
      before: [.integer(1), .integer(4), nil], column: 1)
    let text = #"CASE WHEN "incoming_price NOW" < local_id * 2 THEN local + Before_Stock ELSE 0 END"#
    #expect(try ConflictExpression(text, columns: columns).value(rows) == .integer(9))
    #expect(try ConflictExpression(#""before_price now""#, columns: columns).value(rows) == .null)
    // A rule for rows is a condition, and the values of a single column have no name.
    var whole = rows
    whole.column = nil
    let condition = try ConflictExpression("incoming_stock > local_stock", columns: columns, isOfRows: true)
    #expect(try condition.value(whole) == .integer(1))
    #expect(throws: CairnError.self) { try ConflictExpression("incoming > 1", columns: columns, isOfRows: true) }
    #expect(throws: CairnError.self) { try ConflictExpression("local_gone", columns: columns) }
  }

  @Test func `a text that is right for no table is known before there is one`() {
    #expect(ConflictExpression.fault("local_a + Incoming + before_b", isOfRows: false) == nil)
    #expect(ConflictExpression.fault("local_a > incoming_a", isOfRows: true) == nil)
    #expect(ConflictExpression.fault("local_a > incoming", isOfRows: true)?.contains("incoming") == true)
    #expect(ConflictExpression.fault("max(local, incomming)", isOfRows: false)?.contains("incomming") == true)
  }
}
