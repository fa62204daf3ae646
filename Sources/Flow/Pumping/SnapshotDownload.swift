import Changes
import NetKit
import SystemKit
import Trails

/// Fetches a snapshot from the listener of another node, beside the file that programs read.
///
/// A download that was interrupted goes on where it stopped. A download becomes pending only if its SHA-256 is right.
///
///     let download = SnapshotDownload("prices", to: SnapshotPlace("/srv/prices.db"), over: client)
///     try download.run { done, total in bar.update(done, total) }   // .pending(sum)
package struct SnapshotDownload {
  package enum Outcome: Equatable, Sendable {
    /// The file that programs read is the newest one.
    case current(String)
    /// The newest one is beside the file that programs read.
    case pending(String)
  }

  private let name: String
  private let place: SnapshotPlace
  private let client: HTTPClient
  private let room: @Sendable (String) -> DownloadRoom?
  private static let syncBytes: UInt64 = 32 << 20

  /// - Parameter room: Returns the space on the file system of a folder.
  package init(
    _ name: String, to place: SnapshotPlace, over client: HTTPClient,
    room: @escaping @Sendable (String) -> DownloadRoom? = { DownloadRoom(folder: $0) }
  ) {
    (self.name, self.place, self.client, self.room) = (name, place, client, room)
  }

  private var target: String { "/cairn/1/snapshots/\(name)" }

  /// Fetches the newest file, if it is not here.
  ///
  /// - Throws: `peer-refused`; `trail-missing` if the other node has no file yet; `database-damaged` for a download with
  ///   another SHA-256, or with more bytes than announced; `busy` if another process fetches the snapshot; `disk-full` if
  ///   the file does not fit, as announced or while it is written; the errors of ``HTTPClient``.
  package func run(_ progress: (_ done: UInt64, _ total: UInt64) throws -> Void) throws -> Outcome {
    do {
      let part = try openPart()
      defer { withExtendedLifetime(part) {} }
      let newest = try head(target)
      if place.isPending, SnapshotPlace.sum(of: place.pendingPath).map({ newest.sum.hasSameBytes(as: $0) }) ?? false {
        return .pending(newest.sum)
      }
      if !place.isPending, place.isThere,
        SnapshotPlace.sum(of: place.path).map({ newest.sum.hasSameBytes(as: $0) }) ?? false
      {
        return .current(newest.sum)
      }
      return try fetch(newest, part, progress)
    } catch let error as FileError { throw error.asCairnError(doing: "fetch snapshot \(name)") }
  }

  private func fetch(
    _ newest: Wanted, _ part: File, _ progress: (_ done: UInt64, _ total: UInt64) throws -> Void
  ) throws -> Outcome {
    do {
      let wanted = try begin(part, newest)
      try checkRoom(wanted, part)
      try receive(wanted, part, progress)
      try verify(wanted, part, progress)
      try keep(wanted, part)
      return .pending(wanted.sum)
    } catch let error as FileError where error.isFull {
      // The rest of the system needs the space more than the next download does.
      try? SnapshotPlace.remove(place.partPath)
      throw full("its disk became full: \(error)")
    }
  }

  /// A file at the other node.
  private struct Wanted {
    let sum: String
    let bytes: UInt64
    var target: String
  }

  private func openPart() throws -> File {
    try Folder.checkIsNotShared(onTheWayTo: place.path, "snapshot")
    let there = FileIdentity(path: place.partPath, followsLink: false)
    // A link leads elsewhere.
    if there != nil, there != FileIdentity(path: place.partPath) { try Folder.remove(place.partPath) }
    var part = try File(place.partPath, .openOrCreate)
    if try !part.isOwn {
      // Its owner could change it after it was verified.
      try Folder.remove(place.partPath)
      part = try File(place.partPath, .create)
    }
    guard try part.tryLock(), try part.isInPlace else {
      throw CairnError(
        .busy, "another process fetches \(place.path)", hint: "wait until it has ended", remedy: .retry)
    }
    return part
  }

  private func head(_ target: String) throws -> Wanted {
    let reply = try client.perform("HEAD", target)
    guard reply.status == 200 else {
      // The answer to HEAD has no body: the answer to GET says why.
      throw PumpFault(
        status: reply.status, body: try client.perform("GET", target).body, from: client.base.address
      ).error
    }
    guard let tag = reply.headers["etag"], tag.hasPrefix("\""), tag.hasSuffix("\""),
      FileSum.isSum(String(tag.dropFirst().dropLast())),
      let bytes = reply.headers["content-length"].flatMap({ UInt64($0) }), bytes > 0, bytes <= UInt64(Int64.max)
    else {
      throw CairnError(
        .peerUnreachable, "the answer of \(client.base.address) is not one of a cairnd",
        hint: "check what listens there", remedy: .retry)
    }
    let sum = String(tag.dropFirst().dropLast())
    return Wanted(sum: sum, bytes: bytes, target: "\(self.target)?sha256=\(sum)")
  }

  /// Returns the file to fetch: one that has arrived for the most part, or else the newest one.
  private func begin(_ part: File, _ newest: Wanted) throws -> Wanted {
    let there = try part.size
    if there > 0, let begun = SnapshotPlace.sum(of: place.partPath) {
      if begun.hasSameBytes(as: newest.sum), there <= newest.bytes { return newest }
      if let old = try? head("\(target)?sha256=\(begun)"), old.sum.hasSameBytes(as: begun), there <= old.bytes,
        there > old.bytes / 2
      {
        return old
      }
    }
    try part.truncate(to: 0)
    try SnapshotPlace.store(newest.sum, of: place.partPath)
    return newest
  }

  private func checkRoom(_ wanted: Wanted, _ part: File) throws {
    let there = try part.size
    guard let room = room(Folder.parent(of: place.path)), !room.fits(wanted.bytes - min(there, wanted.bytes)) else {
      return
    }
    if there == 0 { try SnapshotPlace.remove(place.partPath) }
    throw full(
      "\(client.base.address) announces \(wanted.bytes) bytes, \(there) are here, and \(room.usable) more are free, less a reserve of \(room.reserve)"
    )
  }

  private func full(_ why: String) -> CairnError {
    CairnError(
      .diskFull, "cannot fetch snapshot \(name) to \(place.path): \(why)",
      hint: "free space on its file system ('df' shows it), and run again; or choose fewer rows in [snapshot.\(name)]",
      context: ["path": place.path])
  }

  private func receive(
    _ wanted: Wanted, _ part: File, _ progress: (_ done: UInt64, _ total: UInt64) throws -> Void
  ) throws {
    var done = try part.size
    guard done < wanted.bytes else { return }
    let begin = done
    var synced = done
    let headers = begin > 0 ? [("Range", "bytes=\(begin)-"), ("If-Range", PublishedSnapshot.tag(wanted.sum))] : []
    let reply = try withoutActuallyEscaping(progress) { progress in
      try client.perform("GET", wanted.target, headers: headers) { bytes in
        guard UInt64(bytes.count) <= wanted.bytes - done else {
          try discard(part)
          throw damaged("it is longer than the \(wanted.bytes) bytes that were announced")
        }
        try part.write(bytes, at: done)
        done += UInt64(bytes.count)
        if done - synced >= Self.syncBytes {
          try part.syncData()
          synced = done
        }
        try progress(done, wanted.bytes)
      }
    }
    guard reply.status == (begin > 0 ? 206 : 200) else {
      if (200..<300).contains(reply.status) { try discard(part) }
      throw PumpFault(status: reply.status, body: reply.body, from: client.base.address).error
    }
    guard done == wanted.bytes else {
      throw CairnError(
        .peerUnreachable, "\(client.base.address) sent \(done) of \(wanted.bytes) bytes of snapshot \(name)",
        hint: "run again: the download goes on where it stopped", remedy: .retry)
    }
  }

  private func verify(
    _ wanted: Wanted, _ part: File, _ progress: (_ done: UInt64, _ total: UInt64) throws -> Void
  ) throws {
    try part.sync()
    let (sum, _) = try FileSum.of(part) { _, _ in try progress(wanted.bytes, wanted.bytes) }
    guard sum.hasSameBytes(as: wanted.sum) else {
      try discard(part)
      throw damaged("its SHA-256 is \(sum), not \(wanted.sum)")
    }
  }

  private func discard(_ part: File) throws {
    try part.truncate(to: 0)
    try? Folder.remove(SnapshotPlace.sumPath(of: place.partPath))
  }

  private func damaged(_ why: String) -> CairnError {
    CairnError(
      .databaseDamaged, "the download of snapshot \(name) is damaged: \(why)",
      hint: "run again; if it happens again, check the file at \(client.base.address) with 'sha256sum -c'",
      remedy: .retry)
  }

  /// Makes the download the pending file.
  private func keep(_ wanted: Wanted, _ part: File) throws {
    try place.locked {
      try SnapshotPlace.remove(place.pendingPath)
      try SnapshotPlace.store(wanted.sum, of: place.pendingPath)
      try Folder.rename(place.partPath, to: place.pendingPath)
      try Folder.sync(Folder.parent(of: place.path))
    }
    try? Folder.remove(SnapshotPlace.sumPath(of: place.partPath))
  }
}
