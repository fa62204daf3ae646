import Changes

/// The entries of a list that a status shows: the first 100, and at most 32 KiB of them. A peer or a file decides how long the
/// list is, and clients read a whole status into memory.
///
///     let waits = StatusList(worker.waits) { .object($0.json) }
///     waits.more   // the number of entries that are left out
struct StatusList {
  private static let countMax = 100
  static let bytesMax = 32 << 10

  private(set) var values: [JSONObject.Value] = []
  let more: Int64

  /// Creates the list. It shows the first entry, whatever its size.
  ///
  /// - Parameter most: The room that the list has, in bytes, if it is less than 32 KiB.
  init<Entries: Collection>(
    _ entries: Entries, bytesMax most: Int = StatusList.bytesMax, _ value: (Entries.Element) -> JSONObject.Value
  ) {
    let bytesMax = min(most, Self.bytesMax)
    var bytes = 0
    for entry in entries.prefix(Self.countMax) {
      let shown = value(entry)
      bytes += JSONObject.text(shown).utf8.count
      guard bytes <= bytesMax || values.isEmpty else { break }
      values.append(shown)
    }
    more = Int64(entries.count - values.count)
  }
}
