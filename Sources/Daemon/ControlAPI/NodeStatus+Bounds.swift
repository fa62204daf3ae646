import Changes

// The lists of the status are bounded, so that a client reads it whatever the number of trails and tables.
extension NodeStatus {
  /// The most bytes of each list in the JSON form.
  enum Bytes {
    static let trails = 3 << 20
    static let paths = 4 << 20
    /// Each kind of list of tables, for all workers together.
    static let tables = 1 << 20
    /// One text of a worker, such as a message.
    static let text = 4096 + 3
    /// Each kind of text, for all workers together.
    static let texts = 1 << 18
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

extension String {
  /// Returns the text, cut to at most `bytes` bytes and a mark.
  func cut(to bytes: Int) -> String {
    utf8.count <= bytes ? self : String(decoding: utf8.prefix(bytes), as: UTF8.self) + "…"
  }
}
