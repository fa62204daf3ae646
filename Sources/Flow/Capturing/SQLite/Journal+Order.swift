import Changes

extension Journal {
  /// Checks that a journal row follows the one before it. The pages of a damaged file may point to each other in a
  /// circle, so that its rows have no end.
  static func check(_ seq: Int64, after last: inout Int64, _ path: String) throws {
    guard seq > last else {
      throw CairnError(
        .databaseDamaged, "journal row \(seq) of \(path) follows row \(last)",
        hint: "check the file with 'PRAGMA integrity_check'")
    }
    last = seq
  }
}
