extension ErrorCode {
  static var driftExplanation: Explanation {
    Explanation(
      "an audit found rows at the target that are not what they are at the source",
      why: """
        `replicate --audit` compares both ends while they follow. It proved, by the trail between them, that a row \
        differs though everything was applied: a program wrote to an SQLite source with triggers switched off \
        (`SQLITE_DBCONFIG_ENABLE_TRIGGER`), something else wrote to the target, or a disk lost what it had. Replication \
        goes on; nothing was mended.
        """,
      what: [
        "Run `cairn compare` with the same `--from`, `--to` and `--state`: it lists every difference.",
        "Find out who wrote there, or it will drift again.",
        "Run it once more with `--repair` while `cairn replicate` runs: the source sends these rows again.",
      ])
  }
}
