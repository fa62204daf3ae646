import Changes
import CodecKit
import SQLiteKit

extension EmbeddedCapture {
  /// Empties the journal before another database replaces all rows of the file. Does nothing if the journal belongs to
  /// a trail.
  package func forgetWaiting() throws {
    try database.transaction {
      guard try journal.isUnclaimed() else { return }
      let last = try journal.place("SELECT max(seq) FROM cairn_journal")
      let (nonce, marker) = (randomBytes(8).withUnsafeBytes { $0.loadUnaligned(as: Int64.self) }, last + 1)
      try database.executeScript(
        "DELETE FROM cairn_journal; DELETE FROM cairn_stage; DELETE FROM cairn_layout WHERE ended IS NOT NULL")
      try database.run(
        "INSERT INTO cairn_journal(seq, code) VALUES (?, ?)", [.integer(marker), .integer(JournalKind.marker.rawValue)])
      try database.run(
        "UPDATE cairn_layout SET previous = NULL, since = ?, action = ?, refresh = NULL",
        [.integer(marker), CaptureInstance.code(.create, isSame: false)])
      try database.run(
        "UPDATE cairn_control SET taken = ?, nonce = ? WHERE id = 0", [.integer(last), .integer(nonce)])
    }
  }
}
