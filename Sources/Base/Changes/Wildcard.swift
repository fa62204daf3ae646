/// A matcher of patterns: `*` matches any number of characters, even none, and `?` matches exactly one.
enum Wildcard {
  static func matches(_ pattern: String, _ name: String) -> Bool {
    let (pattern, name) = (Array(pattern.unicodeScalars), Array(name.unicodeScalars))
    var (at, letter) = (0, 0)
    // The place of the last star, and the end of the text that it matches. Only that match may have to be extended.
    var star: (at: Int, letter: Int)?
    while letter < name.count {
      if at < pattern.count, pattern[at] == "*" {
        star = (at, letter)
        at += 1
      } else if at < pattern.count, pattern[at] == "?" || pattern[at] == name[letter] {
        at += 1
        letter += 1
      } else if let last = star {
        star = (last.at, last.letter + 1)
        (at, letter) = (last.at + 1, last.letter + 1)
      } else {
        return false
      }
    }
    return pattern[at...].allSatisfy { $0 == "*" }
  }
}
