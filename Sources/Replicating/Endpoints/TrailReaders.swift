import Changes
import CodecKit
import Glibc
import SystemKit
import Trails

/// The replications that read the trail of one capture.
///
/// A replication counts as a reader until its target is detached or its state folder is removed. A purge deletes only
/// segments that every reader has durably.
///
///     let readers = TrailReaders(CaptureHome(place: state, trail: trail), source: source.place)
///     for reader in try readers.all() { print(reader) }
package struct TrailReaders: Sendable {
  /// A replication that reads the trail. Example: `Reader(state: "/var/lib/a", target: "/srv/copy.db")`.
  package struct Reader: Equatable, Sendable {
    /// The state folder of the replication.
    @ByBytes package var state: String
    @ByBytes package var target: String
    package var tables = TablePatterns()
    /// Whether rows that an apply writes to the source are also sent to the target; nil if unknown.
    package var relays: Bool?
    /// The oldest segment that the reader needs; 0 if unknown: then all segments are kept.
    package var segment: UInt64 = 0
    /// The time at which the reader was last active, in µs since 1970 UTC.
    package var seenAt: Int64 = 0

    package init(state: String, target: String, tables: TablePatterns = TablePatterns(), seenAt: Int64 = 0) {
      (self.state, self.target, self.tables, self.seenAt) = (state, target, tables, seenAt)
    }
  }

  package let home: CaptureHome
  @ByBytes private var source: String
  private var folder: String { home.place + "/readers" }
  /// The time without activity, in µs, after which a reader counts as idle.
  package static let seenMicroseconds: Int64 = 120_000_000

  package init(_ home: CaptureHome, source: String) { (self.home, self.source) = (home, source) }

  /// A value that changes when a reader is added or requests a refresh.
  package var stamp: FileStamp? { FileStamp(path: folder) }

  // MARK: Readers

  /// Adds a reader, or updates a known reader. All segments are kept for a new reader.
  /// - Returns: Whether the reader is new.
  package func enroll(_ reader: Reader) throws -> Bool {
    try begin()
    let before = try read(file(of: reader.state))
    var reader = reader
    reader.segment = min(reader.segment, before?.segment ?? 0)
    try write(reader)
    return before == nil
  }

  package func all() throws -> [Reader] {
    try names().filter { $0.utf8.count == Self.nameLength }.compactMap { try read("\(folder)/\($0)") }
      .filter { try !isGone($0) }
  }

  /// Returns all readers except the replication with this state folder.
  package func others(than state: String) throws -> [Reader] {
    let own = file(of: state)
    return try all().filter { file(of: $0.state) != own }
  }

  /// Returns the tables that at least one reader needs.
  package func tables() throws -> TablePatterns { TablePatterns(anyOf: try all().map(\.tables)) }

  package func remove(_ state: String) throws {
    for name in try requests(of: state) { try forget("\(folder)/\(name)") }
    try forget(file(of: state))
  }

  /// Stores the oldest segment that a reader needs. Does nothing if the reader was removed.
  package func note(_ segment: UInt64, of state: String) throws {
    guard var reader = try read(file(of: state)), reader.segment < segment else { return touch(state) }
    reader.segment = segment
    try write(reader)
  }

  package func touch(_ state: String) { Folder.touch(file(of: state)) }

  /// Returns the oldest position that any reader other than `state` needs; nil if there is no such reader.
  package func needs(besides state: String) throws -> Position? {
    try others(than: state).map(\.segment).min().map { Position(segment: $0, offset: 0) }
  }

  private func isGone(_ reader: Reader) throws -> Bool {
    do {
      try StateFolder.check(reader.state, from: source, to: reader.target)
      return false
    } catch let error as CairnError where error.code == .trailMissing || error.code == .stateForeign { return true }
  }

  /// Creates the folder of the readers' files if it is missing, with this replication as the first reader.
  private func begin() throws {
    guard !Folder.exists(folder) else { return }
    do { try Folder.create(folder) } catch { throw Self.envelope(error) }
    guard let ends = try StateFolder.ends(of: home.place) else { return }
    try write(
      Reader(state: home.place, target: ends.to, tables: StateFolder.tables(in: home.place) ?? TablePatterns()))
  }

  // MARK: Requests for copies

  /// Requests a refresh of tables for a reader.
  package func ask(_ tables: TablePatterns, for state: String) throws {
    try replace("\(file(of: state)).\(randomBytes(8).hex)", tables.text)
  }

  /// Returns the open requests for a refresh: the name of each request's file, and the tables to refresh.
  package func requests() throws -> [(name: String, tables: TablePatterns)] {
    try names().filter { $0.utf8.count > Self.nameLength && !$0.hasSuffix(".new") }.map { name in
      do throws(FileError) {
        return (name, TablePatterns(text: try File.text("\(folder)/\(name)", bytesMax: 1 << 20)))
      } catch { throw Self.envelope(error) }
    }
  }

  package func hasRequest(of state: String) throws -> Bool { try !requests(of: state).isEmpty }

  private func requests(of state: String) throws -> [String] {
    let head = Folder.lastName(of: file(of: state)) + "."
    return try names().filter { $0.hasPrefix(head) && !$0.hasSuffix(".new") }
  }

  /// Removes the requests with these names. Call this when the requested refreshes are certain to follow.
  package func settle(_ requests: [String]) { for name in requests { try? Folder.remove("\(folder)/\(name)") } }

  // MARK: Files

  private static let nameLength = 16

  private func file(of state: String) -> String {
    // One folder is one reader, whichever path leads to it.
    let state = Array(FileIdentity.canonical(state).utf8)
    return "\(folder)/\(state.withUnsafeBytes { XXHash64.of($0) }.hex(Self.nameLength))"
  }

  private func names() throws -> [String] {
    do throws(FileError) { return try Folder.names(folder) } catch {
      if error.isMissing { return [] }
      throw Self.envelope(error)
    }
  }

  /// Reads the file of a reader; nil if the file does not exist.
  /// - Throws: `state-foreign` for a file that Cairn did not write.
  private func read(_ path: String) throws -> Reader? {
    let text: String
    let seenAt: Int64
    do throws(FileError) {
      seenAt = try File(path, .read).writtenAt
      text = try File.text(path, bytesMax: 1 << 20)
    } catch {
      if error.isMissing { return nil }
      throw Self.envelope(error)
    }
    var reader = Reader(state: "", target: "", seenAt: seenAt)
    var lists: [TablePatterns] = []
    for line in text.split(at: "\n") {
      let (word, value) = line.cut(at: " ") ?? (line, "")
      switch word {
      case "state": reader.state = value
      case "target": reader.target = value
      case "tables": lists.append(TablePatterns(text: value))
      case "relays": reader.relays = value == "yes"
      case "segment": reader.segment = UInt64(value).flatMap { NumberBounds.isSegment($0) ? $0 : nil } ?? 0
      default: break
      }
    }
    guard !reader.state.isEmpty, !reader.target.isEmpty else {
      throw CairnError(
        .stateForeign, "the file \(path) does not name a replication that reads the trail \(home.trail)",
        hint: "find out which program wrote it, and remove it: each replication writes its own again when it starts",
        remedy: .badInput)
    }
    reader.tables = TablePatterns(anyOf: lists)
    return reader
  }

  private func write(_ reader: Reader) throws {
    guard !(reader.state + reader.target + reader.tables.text).utf8.contains(0x0a) else {
      throw CairnError(
        .unsupported, "a path or table name with a line break cannot be stored in \(folder)",
        hint: "rename the folder of --state, the target or the table", remedy: .badInput)
    }
    var lines = ["state \(reader.state)", "target \(reader.target)", "tables \(reader.tables.text)"]
    if let relays = reader.relays { lines.append("relays \(relays ? "yes" : "no")") }
    lines.append("segment \(reader.segment)")
    try replace(file(of: reader.state), lines.joined(separator: "\n") + "\n")
  }

  private func replace(_ path: String, _ text: String) throws {
    do {
      try Array(text.utf8).withUnsafeBytes { try File.replace(path, with: $0) }
    } catch let error as FileError { throw Self.envelope(error) }
  }

  private func forget(_ path: String) throws {
    do throws(FileError) { try Folder.remove(path) } catch {
      if !error.isMissing { throw Self.envelope(error) }
    }
  }

  private static func envelope(_ error: FileError) -> CairnError {
    error.asCairnError(doing: "keep the list of a trail's readers")
  }
}

extension TrailReaders {
  /// Returns a notice about the segments that are kept for an idle reader; nil if no segments are kept for it.
  package func notice(of reader: Reader, _ info: TrailInfo, now: Int64) -> String? {
    guard now - reader.seenAt > Self.seenMicroseconds else { return nil }
    let kept = info.segments.filter { $0.number >= reader.segment && $0.isSealed }
    guard !kept.isEmpty else { return nil }
    let bytes = kept.reduce(0) { $0 + $1.bytes }
    return
      "trail \(info.name) keeps \(bytes >> 20) MiB for \(reader.target), whose replication last ran at \(UTCTime(reader.seenAt)): start it again, or run 'cairn detach --reader \(reader.target.shellWord) --state \(home.place.shellWord)'"
  }

  /// Removes every reader that has this target, for all trails in the default state folders and in `state`. Returns the
  /// names of these trails.
  package static func forget(target: String, state: String?) throws -> [TrailName] {
    var found: [TrailName] = []
    let places = try StateFolders.folders(nil) + (state.map { [try StateFolder.home(of: $0), $0] } ?? [])
    for place in Set(places.map(\.nameKey)).map(\.text) where Folder.isFolder(place + "/readers") {
      guard let ends = try? StateFolder.ends(of: place) else { continue }
      for trail in try Trail.names(state: place) {
        let readers = TrailReaders(CaptureHome(place: place, trail: trail), source: ends.from)
        for reader in try readers.everyone() where reader.target.utf8.elementsEqual(target.utf8) {
          try readers.remove(reader.state)
          found.append(trail)
        }
      }
    }
    return found
  }

  private func everyone() throws -> [Reader] {
    try names().filter { $0.utf8.count == Self.nameLength }.compactMap { try read("\(folder)/\($0)") }
  }
}
