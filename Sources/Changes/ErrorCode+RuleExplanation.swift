extension ErrorCode {
  static var ruleExplanation: Explanation {
    Explanation(
      "a rule for a table cannot be kept",
      why: """
        A rule of apply (`[[apply.NAME.table]]`) names a column that the table does not have, computes what SQLite \
        does not take, leaves out a part of the key, or needs what the source does not tell: PostgreSQL logs whole rows \
        only under REPLICA IDENTITY FULL. A table whose rule cannot be kept waits; all others go on. An apply does not \
        begin under rules that were changed in a way in which its tables cannot follow.
        """,
      what: [
        "Read the message: it names the table, the part of the rule, and what SQLite says to it.",
        "Mend the rule and load the conf again; the table goes on by itself. See docs/mapping.md.",
        "Where the source does not tell enough, run the ALTER TABLE of the hint there, then copy the table again.",
      ])
  }
}
