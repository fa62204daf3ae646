import Capturing
import Changes
import Endpoints
import Replicating
import SQLiteKit
import SystemKit
import Trails

/// The two databases that are synchronised, and the files about them in the state folder.
struct SynchronizedEnds: Sendable {
  /// The content of the file `sent`: the last commit of this database that the peer has applied.
  struct Sent: Equatable {
    /// The commit's last row in the journal; 0 if the peer has applied no commit.
    var journal: Int64 = 0
    /// The commit's transaction in the trail; 0 if the peer has applied no commit.
    var transaction: UInt64 = 0
  }

  let own: DatabaseURL
  let peer: DatabaseURL
  let state: String
  /// The trail of this database's commits, and the trail of the peer's commits.
  let trails: (own: TrailName, peer: TrailName)

  init(
    path: String, node: String, peer: DatabaseURL, state: String?
  ) throws {
    guard state != "" else {
      throw SynchronizationError(
        .rule, "the state folder has an empty name", hint: "name a folder, or nil for the one beside the database")
    }
    file = path
    own = DatabaseURL.sqlite(path: path).resolved
    self.peer = peer.resolved
    self.state = state.map { $0.hasPrefix("/") ? $0 : FileIdentity.canonical("./" + $0) } ?? "\(path)-cairn"
    // Several programs may have the same peer, each with a trail of its own from there.
    trails = (
      TrailName(origin: node, name: own.stem), TrailName(origin: "peer-of-\(node)", name: peer.resolved.stem)
    )
  }

  private let file: String
  var ownFolder: String { "\(state)/\(trails.own)" }

  func isBegun() -> Bool { [trails.own, trails.peer].allSatisfy { Trail.exists(folder: "\(state)/\($0)") } }

  /// Returns the direction in which the first copy of tables and rows began; `chosen` if no trail exists yet.
  func firstCopy(_ chosen: Synchronizer.Options.FirstCopy) throws -> Synchronizer.Options.FirstCopy {
    guard let there = try lines("replication").first else { return chosen }
    let begun: Synchronizer.Options.FirstCopy? =
      there == "from \(own.place)" ? .up : there == "from \(peer.place)" ? .down : nil
    guard let begun, begun != chosen else { return chosen }
    if [trails.own, trails.peer].contains(where: { Trail.exists(folder: "\(state)/\($0)") }) { return begun }
    // The first copy was refused before any trail began: forget its direction.
    try removeFile("replication")
    return chosen
  }

  /// Checks, before the first copy of tables and rows, that the database `end` has no checkpoint of an earlier trail
  /// with this name.
  /// - Parameter forgets: Whether to remove such a checkpoint instead. Rows written from that trail stay.
  /// - Throws: `checkpoint-foreign` without `forgets`.
  func checkTrail(_ trail: TrailName, isKnownAt end: DatabaseURL, forgets: Bool) throws {
    guard !Trail.exists(folder: "\(state)/\(trail)") else { return }
    let plan = StartPlan(
      try TargetDatabase(end).checkpoint(of: trail), trail: nil, request: .none,
      rules: .init(existing: nil, replacesForeign: forgets))
    if case .refuse = plan {
      throw CairnError(
        .checkpointForeign, "\(end.place) was filled from trail \(trail), which is not in \(state)",
        hint: "name the state folder of that trail, or copy all rows again")
    }
    guard plan.forgets else { return }
    _ = try Detaching.forget(trail, at: end)
  }

  func checkIsInitialized() throws {
    let there = try lines("initialized").first
    guard there != peer.place else { return }
    let other = there.map { ", but with \($0)" } ?? ""
    throw SynchronizationError(
      .notInitialized, "the database has not been initialised with \(peer.place)\(other)",
      hint: other.isEmpty
        ? "call initialize() once" : "use that address, or another state folder for another peer")
  }

  func noteInitialized() throws { try replace("initialized", [peer.place]) }

  /// Returns the number of transactions in this database's trail that the peer may not have applied.
  func unsent() throws -> Int {
    guard let end = try Trail.end(folder: ownFolder) else { return 0 }
    return Int(clamping: end.lastTransaction - min(end.lastTransaction, try sent().transaction))
  }

  /// Returns the content of the file `sent`; zeros if the file belongs to another trail.
  func sent() throws -> Sent {
    let words = try lines("sent").first?.split(at: " ") ?? []
    guard words.count == 3, let end = try Trail.end(folder: ownFolder), end.id.description == words[0],
      let journal = Int64(words[1]), let transaction = UInt64(words[2])
    else { return Sent() }
    return Sent(journal: journal, transaction: transaction)
  }

  /// Writes to the file `sent` how far the peer has applied this database's trail.
  ///
  /// - Parameter journal: The last journal row that the peer has, as far as this run knows; nil if the run read no row
  ///   from the journal.
  /// - Parameter transaction: The last transaction that the peer applied in this run; 0 if none.
  /// - Parameter position: The peer's position in the trail, after `transaction`.
  func noteSent(journal: Int64?, transaction: UInt64, position: Position) throws {
    guard Trail.exists(folder: ownFolder) else { return }
    let (info, before) = (try Trail.info(folder: ownFolder), try sent())
    let isWhole = position >= info.end.position
    // All rows that earlier runs took from the journal are in the trail, and the peer has the whole trail.
    let marked = journal == nil && isWhole ? try taken() : 0
    let number = isWhole ? info.lastTransaction : max(before.transaction, transaction)
    try replace("sent", ["\(info.id) \(max(before.journal, journal ?? marked)) \(number)"])
  }

  private func taken() throws -> Int64 {
    try EmbeddedCapture(OwnTables.openChecked(file, isReader: true)).taken()
  }

  func lines(_ file: String) throws -> [String] {
    guard Folder.exists("\(state)/\(file)") else { return [] }
    // The file `refused` lists the quarantined transactions, at most a million.
    do { return try File.text("\(state)/\(file)", bytesMax: 64 << 20).split(at: "\n") } catch {
      throw error.asCairnError(doing: "read the state")
    }
  }

  private func removeFile(_ file: String) throws {
    do { try Folder.remove("\(state)/\(file)") } catch {
      throw error.asCairnError(doing: "write the state")
    }
  }

  func replace(_ file: String, _ lines: [String]) throws {
    let text = lines.map { $0 + "\n" }.joined()
    do { try Array(text.utf8).withUnsafeBytes { try File.replace("\(state)/\(file)", with: $0) } } catch let error
      as FileError
    { throw error.asCairnError(doing: "write the state") }
  }
}
