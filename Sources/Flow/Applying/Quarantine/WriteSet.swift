import Changes
import Versions

/// The rows and tables that a transaction touches. They show which other transactions depend on it.
package struct WriteSet: Equatable, Sendable {
  /// The maximum number of rows that a footprint lists. With more rows, it lists whole tables.
  static let rowsMax = 10_000

  /// The names of the rows that the transaction writes, from their keys and unique values.
  var rows: Set<RowName> = []
  var parents: Set<RowName> = []
  var tables: Set<NameKey> = []
  /// The tables in which the transaction may touch any row, so that single rows are not listed.
  var wholeTables: Set<NameKey> = []
  package var changeCount = 0
  /// Whether the transaction has only changes of rows: no schema change and no part of a refresh.
  var isOfRows = true

  /// Returns whether this transaction must be applied after the transaction of `earlier`. Two foreign keys that
  /// reference the same row are no dependency.
  func depends(on earlier: WriteSet) -> Bool {
    !rows.isDisjoint(with: earlier.rows) || !parents.isDisjoint(with: earlier.rows)
      || !rows.isDisjoint(with: earlier.parents) || !wholeTables.isDisjoint(with: earlier.tables)
      || !tables.isDisjoint(with: earlier.wholeTables)
  }

  mutating func touchAll(of table: String) {
    tables.insert(table)
    wholeTables.insert(table)
  }

  mutating func include(_ other: WriteSet) {
    rows.formUnion(other.rows)
    parents.formUnion(other.parents)
    tables.formUnion(other.tables)
    wholeTables.formUnion(other.wholeTables)
  }

  /// If the footprint lists more than ``rowsMax`` rows, replaces them by their tables.
  mutating func widen() {
    guard rows.count + parents.count > Self.rowsMax else { return }
    wholeTables.formUnion(tables)
    rows.removeAll()
    parents.removeAll()
  }
}

// MARK: - As text

extension WriteSet {
  /// The footprint as text: a line for each table, row and referenced row, such as `table orders`, and the number of
  /// changes.
  var text: String {
    var lines = tables.sorted().map { "table \($0.text.escapedLine)" }
    lines += wholeTables.sorted().map { "whole \($0.text.escapedLine)" }
    lines += rows.map(\.hash).sorted().map { "row \($0.hex(16))" }
    lines += parents.map(\.hash).sorted().map { "parent \($0.hex(16))" }
    lines.append("changes \(changeCount)")
    return lines.joined(separator: "\n")
  }

  init?(_ text: String) {
    for line in text.split(at: "\n") {
      guard let (kind, value) = line.cut(at: " ") else { return nil }
      switch kind {
      case "table": tables.insert(value.unescapedLine)
      case "whole": wholeTables.insert(value.unescapedLine)
      case "row", "parent":
        guard let hash = UInt64(value, radix: 16) else { return nil }
        if kind == "row" {
          rows.insert(RowName(hash: hash))
        } else {
          parents.insert(RowName(hash: hash))
        }
      case "changes":
        guard let count = Int(value), count >= 0, NumberBounds.isNumber(UInt64(count)) else { return nil }
        changeCount = count
      default: return nil
      }
    }
  }
}

extension String {
  fileprivate var escapedLine: String {
    var escaped = ""
    for scalar in unicodeScalars {
      switch scalar {
      case "\\": escaped += "\\\\"
      case "\n": escaped += "\\n"
      case "\r": escaped += "\\r"
      default: escaped.unicodeScalars.append(scalar)
      }
    }
    return escaped
  }

  fileprivate var unescapedLine: String {
    var (plain, isEscaped) = ("", false)
    for scalar in unicodeScalars {
      if isEscaped {
        plain.unicodeScalars.append(scalar == "n" ? "\n" : scalar == "r" ? "\r" : scalar)
        isEscaped = false
      } else if scalar == "\\" {
        isEscaped = true
      } else {
        plain.unicodeScalars.append(scalar)
      }
    }
    return plain
  }
}
