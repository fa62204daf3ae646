import Changes

/// The order in which the columns of a table, or the attributes of a type, are renamed, so that each new name is free.
/// Two that exchange their names need a temporary name.
///
///     RenameOrder([("a", "b"), ("b", "a")], taken: ["a", "b"]).steps
///     // a -> cairn_moving_2, b -> a, cairn_moving_2 -> b
struct RenameOrder {
  /// At most twice as many steps as renames. A rename to a name that another column keeps is among them, so that the
  /// database refuses it.
  private(set) var steps: [(old: String, new: String)] = []
  private var waiting: [(old: String, new: String)?]
  private var taken: Set<NameKey>
  /// The rename to each new name.
  private var followers: [NameKey: Int]
  private var count: Int

  /// - Parameter taken: The names that columns have before the first rename.
  init(_ renames: [(old: String, new: String)], taken: Set<NameKey>) {
    (waiting, self.taken, count) = (renames, taken, renames.count)
    func places(_ name: (_ rename: (old: String, new: String)) -> String) -> [NameKey: Int] {
      Dictionary(renames.enumerated().map { (name($1).nameKey, $0) }) { first, _ in first }
    }
    followers = places(\.new)
    let movers = places(\.old)
    for index in renames.indices where !taken.contains(renames[index].new.nameKey) { run(from: index) }
    // The others either wait for a name that does not become free, or for each other.
    for index in renames.indices {
      guard let rename = waiting[index], movers[rename.new.nameKey].flatMap({ waiting[$0] }) == nil else { continue }
      run(from: index)
    }
    for index in renames.indices { exchange(at: index) }
  }

  /// Makes a rename, and then each rename that waits for the name that became free.
  private mutating func run(from index: Int) {
    var next: Int? = index
    while let place = next, let (old, new) = waiting[place] {
      move(old, new)
      waiting[place] = nil
      count -= 1
      next = followers[old]
    }
  }

  private mutating func exchange(at index: Int) {
    guard let (old, new) = waiting[index] else { return }
    var number = count
    while taken.contains("cairn_moving_\(number)") || followers["cairn_moving_\(number)"] != nil { number += 1 }
    let aside = "cairn_moving_\(number)"
    move(old, aside)
    waiting[index] = (aside, new)
    if let next = followers[old] { run(from: next) }
    run(from: index)
  }

  private mutating func move(_ old: String, _ new: String) {
    steps.append((old, new))
    taken.remove(old.nameKey)
    taken.insert(new.nameKey)
  }
}
