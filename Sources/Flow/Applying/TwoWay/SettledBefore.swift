import Changes
import Conflicts
import Versions

/// A cache of the versions of rows. With it, apply need not read all versions from the trails for each write to the
/// same row.
struct SettledBefore<Table: AnyObject> {
  typealias Read = [(key: [Value], version: RowVersion)]

  private struct Row: Hashable {
    let table: ObjectIdentifier
    let name: RowName
  }

  private struct Place: Hashable {
    let row: Row
    let origin: String
    let number: UInt64
  }

  /// The `versions` of a row when it was last resolved, without `last`: the version that was incoming then.
  private struct Condensed {
    let key: [Value]
    var fingerprint: VersionFingerprint
    var versions: CondensedVersions
    var last: RowVersion
    var byteCount: Int
  }

  /// The size limit of each cache, in bytes. A cache that exceeds it is emptied.
  private static var bytesMax: Int { 4 << 20 }
  private var known: [Place: Read] = [:]
  private var byteCount = 0
  private var condensed: [Row: Condensed] = [:]
  private var condensedByteCount = 0
  /// The tables of the entries, kept in memory so that no other object gets the same identifier.
  private var tables: [ObjectIdentifier: Table] = [:]

  /// Returns the versions of a row except `incoming`, and except versions that cannot change the resolved row.
  mutating func others(
    _ name: RowName, _ key: [Value], in table: Table, beside incoming: RowVersion, _ desk: TwoWaySession<Table>,
    isSame: ([Value], [Value]) -> Bool, _ read: (VersionPlace) throws -> Read
  ) throws -> [RowVersion] {
    let row = Row(table: ObjectIdentifier(table), name: name)
    let fingerprint = try desk.fingerprint(name)
    if let known = try follow(row, key, desk, fingerprint), !known.areToldApart(by: incoming) {
      condensed[row]?.last = incoming
      return known.versions
    }
    var versions: [RowVersion] = []
    for place in try desk.otherPlaces(name) {
      for (other, version) in try self.versions(row, at: place, { try read(place) }) where isSame(key, other) {
        versions.append(version)
      }
    }
    tables[row.table] = table
    let made = CondensedVersions(versions, beside: incoming)
    let byteCount = made.versions.reduce(200) { $0 + $1.byteCount }
    keep(Condensed(key: key, fingerprint: fingerprint, versions: made, last: incoming, byteCount: byteCount), of: row)
    return made.versions
  }

  /// Returns the cached versions of a row, with the version that was incoming when the cache was filled. Nil if the
  /// cache has no versions of the row, or outdated ones.
  private mutating func follow(
    _ row: Row, _ key: [Value], _ desk: TwoWaySession<Table>, _ now: VersionFingerprint
  ) throws -> CondensedVersions? {
    guard let before = condensed[row], before.key == key else { return nil }
    if before.fingerprint == now { return before.versions }
    guard try desk.fingerprint(row.name, without: before.last.stamp) == before.fingerprint else { return nil }
    var versions = before.versions
    // The transaction that deletes a row may have written it before, which only the trail shows.
    guard !before.last.isDelete, versions.add(before.last) else { return nil }
    keep(
      Condensed(
        key: key, fingerprint: now, versions: versions, last: before.last,
        byteCount: before.byteCount + before.last.byteCount), of: row)
    return versions
  }

  private mutating func keep(_ versions: Condensed, of row: Row) {
    condensedByteCount += versions.byteCount - (condensed[row]?.byteCount ?? 0)
    condensed[row] = versions
    guard condensedByteCount > Self.bytesMax else { return }
    condensed.removeAll()
    condensedByteCount = 0
  }

  private mutating func versions(_ row: Row, at place: VersionPlace, _ read: () throws -> Read) rethrows -> Read {
    let place = Place(row: row, origin: place.stamp.origin, number: place.stamp.number)
    if let versions = known[place] { return versions }
    let versions = try read()
    byteCount += versions.reduce(200) { $0 + $1.version.byteCount }
    if byteCount > Self.bytesMax {
      known.removeAll()
      byteCount = 0
    }
    known[place] = versions
    return versions
  }
}

extension RowVersion {
  fileprivate var byteCount: Int { Self.byteCount(before) + Self.byteCount(after) + 200 }

  private static func byteCount(_ row: Row?) -> Int { row?.reduce(0) { $0 + ($1?.memoryBytes ?? 16) } ?? 0 }
}
