import Changes
import Conflicts
import SQLiteKit
import TestServers
import Testing

@testable import Applying

/// Numbers in Cairn's own tables of an SQLite target, which other programs can write to.
@Suite struct ForgedStateTests {
  private static let table = "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT, w TEXT)"

  @Test(arguments: ["number", "segment", "offset"], [Int64.min, -1, .max])
  func `a checkpoint that Cairn did not write is damage`(column: String, value: Int64) throws {
    let made = try Handmade(TempFolder())
    try made.begin(Self.table, "t", [[1, "a", "b"]])
    try made.replay()
    try made.run("UPDATE cairn_checkpoint SET \(column) = \(value)")
    try made.transaction { try made.change(.insert, .after, "t", [[2, "c", "d"]]) }
    #expect(failure { try made.replay() }?.code == .databaseDamaged)
    #expect(try made.rows("SELECT count(*) FROM t") == [[1]])
  }

  @Test(arguments: ["wait_number", "wait_segment", "wait_offset", "wait_chain"], [Int64.min, -1, .max])
  func `a table whose state Cairn did not write does not go on`(column: String, value: Int64) throws {
    let made = try Handmade(TempFolder())
    try made.begin(Self.table, "t", [[1, "a", "b"]])
    try made.replay()
    try made.run(
      """
      UPDATE cairn_table SET wait_trail = (SELECT trail_id FROM cairn_checkpoint),
        wait_segment = (SELECT segment FROM cairn_checkpoint), wait_offset = (SELECT offset FROM cairn_checkpoint),
        wait_chain = (SELECT chain FROM cairn_checkpoint), wait_number = 1, wait_names = 't', wait_source = 't';
      UPDATE cairn_table SET \(column) = \(value)
      """)
    try made.transaction { try made.change(.insert, .after, "t", [[2, "c", "d"]]) }
    #expect(failure { try made.replay() }?.code == .databaseDamaged)
    #expect(try made.rows("SELECT count(*) FROM t") == [[1]])
  }

  @Test(arguments: ["-1", "9223372036854775807", "4611686018427387904"])
  func `rows of the logs with numbers that no transaction has are not read`(number: String) {
    var texts = ["", "t", "{\"id\":1}", "{\"id\":1}", "5", "a.b", "7", ""]
    #expect(DisplacedRow(texts)?.stamp == VersionStamp(clock: 5, origin: "a.b", number: 7))
    texts[6] = number
    #expect(DisplacedRow(texts) == nil)
    (texts[4], texts[6]) = (number, "7")
    #expect(DisplacedRow(texts) == nil)
    let id = String(repeating: "07", count: 16)
    var row: [String?] = [
      "a.b", id, "7", "00000001:00000000", "00000001:00000000", String(repeating: "00", count: 32), "5", "c", "m", "h",
      nil,
      nil, "0", "changes 0",
    ]
    #expect(QuarantineColumns.transaction(id: 1) { row[$0] }?.number == 7)
    row[2] = number
    #expect(QuarantineColumns.transaction(id: 1) { row[$0] } == nil)
    (row[2], row[6]) = ("7", "-9223372036854775808")
    #expect(QuarantineColumns.transaction(id: 1) { row[$0] } == nil)
    var conflict: [String?] = [
      "5", "a.b", "00000001:00000000", "7", "8", Conflict.Kind.updateOriginDiffers.rawValue, "newest", "", "t",
      "{\"id\":1}", nil, nil, nil, nil, ConflictRecord.Winner.local.rawValue, nil, nil, nil, nil,
    ]
    #expect(ConflictColumns.record(id: 1) { conflict[$0] }?.number == 7)
    for column in [3, 4] {
      let right = conflict[column]
      conflict[column] = number
      #expect(ConflictColumns.record(id: 1) { conflict[$0] } == nil, "\(column)")
      conflict[column] = right
    }
  }
}
