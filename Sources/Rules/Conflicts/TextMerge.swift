/// A three-way merge of two texts with a common ancestor, line by line.
///
/// Lines that only one text changed are taken from that text. If both texts changed the same lines, the result has the
/// lines of the first text, then the lines of the second text. A change that both texts made appears once.
struct TextMerge {
  typealias Lines = ArraySlice<ArraySlice<UInt8>>

  /// The maximum number of cells in the matrix that compares two texts.
  private static let cellsMax = 4_000_000

  static func merged(base: [UInt8], _ first: [UInt8], _ second: [UInt8]) -> [UInt8] {
    let (base, first, second) = (lines(base), lines(first), lines(second))
    let (inFirst, inSecond) = (places(of: base, in: first), places(of: base, in: second))
    var merged: [ArraySlice<UInt8>] = []
    var (i, j, k) = (0, 0, 0)
    while true {
      let next = (i..<base.count).first { inFirst[$0] != nil && inSecond[$0] != nil }
      let ends = next.flatMap { at in inFirst[at].flatMap { a in inSecond[at].map { (at, a, $0) } } }
      let (endBase, endFirst, endSecond) = ends ?? (base.count, first.count, second.count)
      merged += chunk(base[i..<endBase], first[j..<endFirst], second[k..<endSecond])
      guard let next else { break }
      merged.append(base[next])
      (i, j, k) = (endBase + 1, endFirst + 1, endSecond + 1)
    }
    return Array(merged.joined(separator: [0x0a]))
  }

  private static func lines(_ text: [UInt8]) -> Lines {
    text.split(separator: 0x0a, omittingEmptySubsequences: false)[...]
  }

  /// Merges the lines between two lines that all three texts share.
  private static func chunk(_ base: Lines, _ first: Lines, _ second: Lines) -> Lines {
    if same(first, second) || same(second, base) { return first }
    if same(first, base) { return second }
    let begin = zip(first, second).prefix { $0 == $1 }.count
    let (a, b) = (first.dropFirst(begin), second.dropFirst(begin))
    let end = zip(a.reversed(), b.reversed()).prefix { $0 == $1 }.count
    return first.prefix(begin) + a.dropLast(end) + b.dropLast(end) + a.suffix(end)
  }

  private static func same(_ a: Lines, _ b: Lines) -> Bool { a.elementsEqual(b) }

  /// Returns the index in `other` of each line of `base`, by a longest common subsequence; nil if `other` lacks the
  /// line.
  private static func places(of base: Lines, in other: Lines) -> [Int?] {
    var places = [Int?](repeating: nil, count: base.count)
    let begin = zip(base, other).prefix { $0 == $1 }.count
    for index in 0..<begin { places[index] = index }
    let (a, b) = (base.dropFirst(begin), other.dropFirst(begin))
    let end = zip(a.reversed(), b.reversed()).prefix { $0 == $1 }.count
    for index in 0..<end { places[base.count - 1 - index] = other.count - 1 - index }
    let (old, new) = (Array(a.dropLast(end)), Array(b.dropLast(end)))
    guard !old.isEmpty, !new.isEmpty, old.count * new.count <= cellsMax else { return places }
    // The length of the longest common subsequence of the lines from each pair of indexes on.
    let width = new.count + 1
    var lengths = [Int32](repeating: 0, count: (old.count + 1) * width)
    for i in old.indices.reversed() {
      for j in new.indices.reversed() {
        lengths[i * width + j] =
          old[i] == new[j]
          ? lengths[(i + 1) * width + j + 1] + 1 : max(lengths[(i + 1) * width + j], lengths[i * width + j + 1])
      }
    }
    var (i, j) = (0, 0)
    while i < old.count, j < new.count {
      if old[i] == new[j] {
        places[begin + i] = begin + j
        (i, j) = (i + 1, j + 1)
      } else if lengths[(i + 1) * width + j] >= lengths[i * width + j + 1] {
        i += 1
      } else {
        j += 1
      }
    }
    return places
  }
}
