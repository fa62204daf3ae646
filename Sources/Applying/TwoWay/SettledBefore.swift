import Changes
import Conflicts
import Versions

/// Versions of rows in the form of their tables, once they have been read from a trail: a row that is written all the time
/// is settled over and over, each time from all of them.
struct SettledBefore<Table: AnyObject> {
  typealias Read = [(key: [Value], version: RowVersion)]

  private struct Place: Hashable {
    let table: ObjectIdentifier
    let row: RowName
    let origin: String
    let number: UInt64
  }

  /// Of values, in memory; past that all is read again.
  private static var bytesMax: Int { 4 << 20 }
  private var known: [Place: Read] = [:]
  private var byteCount = 0
  /// By these, places are told apart as long as they are here.
  private var tables: [ObjectIdentifier: Table] = [:]

  mutating func versions(of row: RowName, in table: Table, at place: VersionPlace, _ read: () throws -> Read) rethrows
    -> Read
  {
    let id = ObjectIdentifier(table)
    let place = Place(table: id, row: row, origin: place.stamp.origin, number: place.stamp.number)
    if let versions = known[place] { return versions }
    let versions = try read()
    byteCount += versions.reduce(200) { $0 + $1.version.byteCount }
    if byteCount > Self.bytesMax {
      known.removeAll()
      tables.removeAll()
      byteCount = 0
    }
    known[place] = versions
    tables[id] = table
    return versions
  }
}

extension RowVersion {
  /// In memory, about.
  fileprivate var byteCount: Int { Self.byteCount(before) + Self.byteCount(after) + 200 }

  private static func byteCount(_ row: Row?) -> Int {
    row?.reduce(0) { sum, value in
      switch value {
      case .text(let bytes)?, .exact(let bytes)?, .blob(let bytes)?: sum + 64 + bytes.count
      default: sum + 16
      }
    } ?? 0
  }
}
