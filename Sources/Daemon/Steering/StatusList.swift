import Changes

/// The entries of a list that a status shows: the first 100, and 32 KiB of them. A peer or a file decides how long the
/// list is, and clients read a whole status into memory.
///
///     let waits = StatusList(worker.waits) { .object($0.json) }
///     waits.more   // the number of entries that are left out
struct StatusList {
  private static let countMax = 100
  private static let bytesMax = 32 << 10

  private(set) var values: [JSONObject.Value] = []
  let more: Int64

  /// Creates the list. It shows the first entry, whatever its size.
  init<Entries: Collection>(_ entries: Entries, _ value: (Entries.Element) -> JSONObject.Value) {
    var bytes = 0
    for entry in entries.prefix(Self.countMax) {
      let shown = value(entry)
      bytes += JSONObject.text(shown).utf8.count
      guard bytes <= Self.bytesMax || values.isEmpty else { break }
      values.append(shown)
    }
    more = Int64(entries.count - values.count)
  }
}
