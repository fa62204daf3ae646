import Changes

/// The entries of a list that a status shows. A peer or a file decides how long the list is, and clients read a whole
/// status into memory.
///
///     let waits = StatusList(worker.waits) { .object($0.json) }
///     waits.more   // the number of entries that are left out
struct StatusList {
  /// The most bytes of the JSON texts of a list.
  static let bytesMax = 32 << 10
  /// The most entries of a list, for a person who reads them.
  static let countMax = 100

  let values: [JSONObject.Value]
  let more: Int64

  /// Creates the list. It shows the first chosen entry, whatever its size.
  ///
  /// - Parameter order: The indices in the order in which entries are chosen; nil: in their own order. The list keeps
  ///   their own order.
  init<Entry>(
    _ entries: [Entry], countMax: Int = StatusList.countMax, bytesMax: Int = StatusList.bytesMax, order: [Int]? = nil,
    _ value: (Entry) -> JSONObject.Value
  ) {
    var bytes = 0
    var chosen: [(index: Int, value: JSONObject.Value)] = []
    for index in (order ?? Array(entries.indices)).prefix(countMax) {
      let shown = value(entries[index])
      bytes += JSONObject.text(shown).utf8.count
      guard bytes <= bytesMax || chosen.isEmpty else { break }
      chosen.append((index, shown))
    }
    values = chosen.sorted { $0.index < $1.index }.map(\.value)
    more = Int64(entries.count - values.count)
  }
}
