/// A place in a conf file. Lines and columns count from 1; line 0 means the whole file.
package struct ConfPlace: Comparable, Hashable, Sendable, CustomStringConvertible {
  package var file: String
  package var line: Int
  package var column: Int

  package init(file: String, line: Int = 0, column: Int = 0) {
    (self.file, self.line, self.column) = (file, line, column)
  }

  package static func < (a: ConfPlace, b: ConfPlace) -> Bool {
    a.file == b.file
      ? (a.line, a.column) < (b.line, b.column) : Array(a.file.utf8).lexicographicallyPrecedes(b.file.utf8)
  }

  package var description: String { line == 0 ? file : "\(file):\(line):\(column)" }

  /// The place without the column, as in `cairn config show`.
  package var lineDescription: String { line == 0 ? file : "\(file):\(line)" }
}
