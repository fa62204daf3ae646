extension String {
  /// Returns the word in `words` that is most similar to this one, for "did you mean". Nil if more than two letters,
  /// and more than a third of this word's letters, differ.
  package func nearest(in words: [String]) -> String? { nearest(in: words, atMost: Swift.max(2, count / 3)) }

  /// Returns the most similar word in `words`; nil if more than `most` letters are added, missing or different.
  package func nearest(in words: [String], atMost most: Int) -> String? {
    let letters = Array(self)
    let scored = words.map { ($0, Self.distance(letters, Array($0))) }
    return scored.filter { $0.1 <= most }.min { $0.1 < $1.1 }?.0
  }

  private static func distance(_ a: [Character], _ b: [Character]) -> Int {
    var row = Array(0...b.count)
    for (i, x) in a.enumerated() {
      var diagonal = row[0]
      row[0] = i + 1
      for (j, y) in b.enumerated() {
        let above = row[j + 1]
        row[j + 1] = Swift.min(above + 1, row[j] + 1, diagonal + (x == y ? 0 : 1))
        diagonal = above
      }
    }
    return row[b.count]
  }
}
