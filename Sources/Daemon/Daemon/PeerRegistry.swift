import Changes
import ControlAPI
import Synchronization
import SystemKit

/// The positions up to which other nodes have this node's trails durably. The state folder keeps the positions.
package final class PeerRegistry: Sendable {
  /// A trail and its reader at another node: the peer that pulls the trail, or the pump that pushes it there.
  package struct Key: Hashable, Sendable {
    package var reader: WorkerName
    package var trail: TrailName
    package init(_ reader: WorkerName, _ trail: TrailName) { (self.reader, self.trail) = (reader, trail) }
  }

  package struct Entry: Equatable, Sendable {
    package var id: String
    /// The segment and the byte up to which the peer has the trail durably.
    package var segment: UInt64
    package var offset: UInt64
    /// The position up to which every apply of the peer has applied the trail; nil if unknown.
    package var applied: Position?
    /// The time of the last contact with the peer, in µs since 1970 UTC.
    package var seenAt: Int64
    package init(id: String, segment: UInt64, offset: UInt64, applied: Position? = nil, seenAt: Int64) {
      (self.id, self.segment, self.offset, self.applied, self.seenAt) = (id, segment, offset, applied, seenAt)
    }
  }

  // The shortest time, in µs, between two writes of a peer's position that has not left its segment.
  private static let writeMicroseconds: Int64 = 30_000_000

  private struct Written {
    var entry: Entry
    var writtenAt: Int64
    var writtenSegment: UInt64
    var writtenOffset: UInt64
  }

  private let folder: String
  private let book = Mutex<[Key: Written]>([:])

  /// Reads the positions from the state folder. If a position cannot be read, the whole trail is kept for its reader.
  package init(state: String) {
    folder = state + "/readers"
    guard let readers = try? Folder.names(folder) else { return }
    for name in readers {
      guard let reader = WorkerName(name), let trails = try? Folder.names("\(folder)/\(name)") else { continue }
      for trail in trails {
        guard let trail = TrailName(trail), let text = try? File.text("\(folder)/\(name)/\(trail)"),
          let entry = Entry(parsing: text)
        else { continue }
        book.withLock {
          $0[Key(reader, trail)] = Written(
            entry: entry, writtenAt: entry.seenAt, writtenSegment: entry.segment, writtenOffset: entry.offset)
        }
      }
    }
  }

  package subscript(key: Key) -> Entry? { book.withLock { $0[key]?.entry } }

  /// Stores the position that a peer reported. An error while writing the file is ignored, because later positions are
  /// written too.
  package func note(_ entry: Entry, of key: Key) {
    let isDue = book.withLock { book in
      let old = book[key]
      var written = Written(
        entry: entry, writtenAt: old?.writtenAt ?? 0, writtenSegment: old?.writtenSegment ?? 0,
        writtenOffset: old?.writtenOffset ?? 0)
      if written.entry.applied == nil, old?.entry.id == entry.id { written.entry.applied = old?.entry.applied }
      let isDue =
        old == nil || written.writtenSegment != entry.segment || old?.entry.id != entry.id
        || (entry.offset != written.writtenOffset && entry.seenAt - written.writtenAt > Self.writeMicroseconds)
      if isDue {
        written.writtenAt = entry.seenAt
        (written.writtenSegment, written.writtenOffset) = (entry.segment, entry.offset)
      }
      book[key] = written
      return isDue
    }
    guard isDue, let entry = self[key] else { return }
    try? Folder.create(folder)
    try? Folder.create("\(folder)/\(key.reader)")
    try? File.replace("\(folder)/\(key.reader)/\(key.trail)", text: entry.line, permissions: 0o644)
  }

  /// Stores, in memory only, the position up to which a peer has applied a trail, and the time of the contact. If
  /// `applied` is nil, the known position stays.
  package func note(applied: Position?, seenAt: Int64, of key: Key) {
    book.withLock { book in
      guard book[key] != nil else { return }
      book[key]?.entry.seenAt = seenAt
      if let applied { book[key]?.entry.applied = applied }
    }
  }

  /// Removes the readers for which `isWanted` returns false. No segments are kept for them then.
  package func keep(_ isWanted: (Key) -> Bool) {
    let gone = book.withLock { book in
      let gone = book.keys.filter { !isWanted($0) }
      for key in gone { book[key] = nil }
      return gone
    }
    for key in gone { try? Folder.remove("\(folder)/\(key.reader)/\(key.trail)") }
  }
}

extension PeerRegistry.Entry {
  /// The line of a reader in its file: `ID SEGMENT OFFSET SEEN [APPLIED]`.
  var line: String {
    "\(id) \(segment) \(offset) \(seenAt)" + (applied.map { " \($0)" } ?? "") + "\n"
  }

  init?(parsing text: String) {
    let words = text.split { $0 == " " || $0 == "\n" }
    guard words.count >= 4, let segment = UInt64(words[1]), let offset = UInt64(words[2]), let seen = Int64(words[3]),
      NumberBounds.isSegment(segment), NumberBounds.isNumber(offset), NumberBounds.isTime(seen)
    else { return nil }
    self.init(id: String(words[0]), segment: segment, offset: offset, seenAt: seen)
    applied = words.count > 4 ? Position(String(words[4])) : nil
  }
}
