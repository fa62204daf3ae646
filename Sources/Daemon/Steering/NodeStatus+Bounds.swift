import Changes

// The lists of the status are bounded, so that a client reads it whatever the number of trails and tables.
extension NodeStatus {
  /// The most bytes of each list in the JSON form. The lists of all workers share theirs.
  enum Bytes {
    static let trails = 3 << 20
    static let paths = 4 << 20
    /// Each of a worker's lists of tables.
    static let tables = 1 << 20
  }

  /// Returns the first values whose JSON texts take at most `bytesMax` bytes together, in their order.
  ///
  /// - Parameter order: The indices in the order in which values are chosen; nil for the order of the list.
  static func fitting(
    _ values: [JSONObject.Value], order: [Int]? = nil, bytesMax: Int
  ) -> [JSONObject.Value] {
    var left = bytesMax
    var chosen: [Int] = []
    for index in order ?? Array(values.indices) {
      left -= JSONObject([("", values[index])]).line.utf8.count
      guard left >= 0 else { break }
      chosen.append(index)
    }
    return chosen.sorted().map { values[$0] }
  }

  /// The indices of ``paths``, those of failed transfers first. Peers take turns, so that the many trails of one peer
  /// leave room for those of others.
  var pathsByTurn: [Int] {
    var counts: [NameKey: Int] = [:]
    func isFailed(_ index: Int) -> Bool { paths[index].state == .failed || paths[index].state == .givenUp }
    let indices = paths.indices.filter(isFailed) + paths.indices.filter { !isFailed($0) }
    let turns = indices.map { index in
      let turn = counts[NameKey(paths[index].peer), default: 0]
      counts[NameKey(paths[index].peer)] = turn + 1
      return (turn, index)
    }
    return turns.sorted { $0 < $1 }.map(\.1)
  }
}
