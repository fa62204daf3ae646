import Changes

extension ErrorCode {
  static var ruleExplanation: Explanation {
    Explanation(
      "a rule for a table cannot be applied",
      why: """
        A rule of apply (`[[apply.NAME.table]]`) names a column that the table does not have, or computes a value \
        that SQLite refuses. Or it leaves out a part of the key, or needs values that the source does not log. \
        PostgreSQL logs whole rows only under REPLICA IDENTITY FULL. A table whose rule cannot be applied is suspended; \
        all others continue. An apply does not start with changed rules that its tables cannot follow.
        """,
      what: [
        "Read the message: it names the table, the part of the rule, and the message of SQLite.",
        "Correct the rule and run `cairn reload`; the table continues by itself. See docs/reference/mapping.md.",
        "If the source does not log enough, run the ALTER TABLE of the hint there, then copy the table again.",
      ])
  }

  static var forbiddenExplanation: Explanation {
    Explanation(
      "a table would be written that the apply does not allow",
      why: """
        An entry of the conflict log or the target's own list of tables names a table that `tables` of the apply does \
        not include. Or the table belongs to Cairn or the database engine. Cairn writes no such entry: `tables` has \
        changed since, or a program wrote to Cairn's tables. Records of a trail for such tables are left out without \
        this error, and `cairn status` names the tables.
        """,
      what: [
        "Read the message: it names the table.",
        "Add the table to `tables` if the apply may write it, and run `cairn reload`.",
        "Otherwise find out which program writes to the tables of Cairn.",
      ])
  }

  static var ownersExplanation: Explanation {
    Explanation(
      "code of another role would run as the role of apply",
      why: """
        A table at the target has a trigger that fires for replicated rows, a rule, or an expression. It calls a \
        function of a role other than a superuser or the role of apply. Or the table belongs to such a role, and one \
        of its expressions calls a function that is not known to only compute. PostgreSQL would run that code with \
        the rights of apply, which reach further than those of its owner. Nothing was written to the table. \
        docs/explanation/postgres-apply.md lists the functions that are known.
        """,
      what: [
        "Read the message: it names the table, the object and the role that owns the code.",
        "If you trust a trigger, list it with its table: `fire_triggers = [\"TABLE.TRIGGER\"]` in `[apply.NAME]`, and reload.",
        "If you trust the function, give it to a superuser or to the role of apply: `ALTER FUNCTION ... OWNER TO ...`.",
        "Otherwise drop the trigger or expression, or leave the table out: `tables = [\"*\", \"!TABLE\"]`.",
      ])
  }
}
