/// Texts that Unicode makes one character of where SQL sees several: for tests of quoting and of comparisons.
package enum HostileText {
  /// Scalars of each class of Grapheme_Cluster_Break, and of those that rules of emoji and of Indic scripts add.
  ///
  /// Source: https://www.unicode.org/reports/tr29/, table 2.
  package static let classes: [(name: String, scalars: [UInt32])] = [
    ("Other", [0x41, 0x20, 0x3b, 0x2d, 0x24, 0xfffd, 0xffff, 0x10ffff, 0xe000]),
    ("Quote", [0x22, 0x27, 0x5c, 0x60, 0x2019, 0xff07, 0xff02, 0x2bc]),
    (
      "Prepend",
      [
        0x600, 0x605, 0x6dd, 0x70f, 0x890, 0x8e2, 0xd4e, 0x110bd, 0x111c2, 0x1193f, 0x11a3a, 0x11d46, 0x11f02,
      ]
    ),
    ("Extend", [0x300, 0x301, 0x338, 0x5bf, 0xe31, 0x200c, 0x20dd, 0xff9e, 0xe0020, 0xe0100]),
    ("Variation", [0xfe00, 0xfe0e, 0xfe0f]),
    ("Modifier", [0x1f3fb]),
    ("ZWJ", [0x200d]),
    ("SpacingMark", [0x903, 0xe33, 0xeb3, 0x1d166]),
    ("Regional_Indicator", [0x1f1e6, 0x1f1ff]),
    ("L", [0x1100, 0xa960]), ("V", [0x1160, 0xd7b0]), ("T", [0x11a8, 0xd7cb]), ("LV", [0xac00]), ("LVT", [0xac01]),
    ("Control", [0x1, 0x1f, 0x7f, 0x85, 0x9f, 0xad, 0x200b, 0x200e, 0x2028, 0x2029, 0xfeff, 0xe0001]),
    ("CR", [0xd]), ("LF", [0xa]), ("Tab", [0x9]),
    ("Extended_Pictographic", [0xa9, 0x2764, 0x1f600, 0x1f468]),
    ("Linker", [0x94d, 0x9cd]), ("Consonant", [0x915, 0x995]),
    // Pairs of these are canonically equivalent: one name to Swift, two to a database.
    ("Equivalent", [0xe9, 0x65, 0x212b, 0xc5, 0x41, 0x30a, 0x2126, 0x3a9, 0x1f71, 0x3ac, 0x37e, 0x3b, 0x1fef, 0x60]),
  ]

  package static let scalars: [Unicode.Scalar] = classes.flatMap(\.scalars).compactMap { Unicode.Scalar($0) }

  package static func string(_ scalars: some Sequence<Unicode.Scalar>) -> String {
    var text = String.UnicodeScalarView()
    text.append(contentsOf: scalars)
    return String(text)
  }
}

extension Seeded {
  /// A scalar other than NUL: one that breaks clusters, or any of Unicode.
  package mutating func hostileScalar() -> Unicode.Scalar {
    if below(4) > 0 { return HostileText.scalars[below(HostileText.scalars.count)] }
    while true {
      if let scalar = Unicode.Scalar(UInt32(below(0x110000))), scalar.value > 0 { return scalar }
    }
  }

  package mutating func hostileText(upTo count: Int) -> String {
    let length = below(count + 1)
    return HostileText.string((0..<length).map { _ in hostileScalar() })
  }
}
