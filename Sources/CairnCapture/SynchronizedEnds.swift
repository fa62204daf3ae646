import Capturing
import Changes
import Operating
import SQLiteKit
import SystemKit
import Trails

/// The database of a program and its peer, with what is kept about them in the state folder.
struct SynchronizedEnds: Sendable {
  /// The file `sent`: up to where the peer has what was committed here, as far as that has been noted.
  struct Sent: Equatable {
    /// The last row of the journal.
    var journal: Int64 = 0
    /// The last transaction of the trail.
    var transaction: UInt64 = 0
  }

  let own: DatabaseURL
  let peer: DatabaseURL
  let state: String
  /// Of what is committed here, and of what comes from the peer.
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

  /// Whether there is a trail of both ends.
  func isBegun() -> Bool { [trails.own, trails.peer].allSatisfy { Trail.exists(folder: "\(state)/\($0)") } }

  /// From where to where the first copy goes, or went: once there is a trail, the state folder says so.
  func firstCopy(_ chosen: Synchronizer.Options.FirstCopy) throws -> Synchronizer.Options.FirstCopy {
    guard let there = try lines("replication").first else { return chosen }
    let begun: Synchronizer.Options.FirstCopy? =
      there == "from \(own.place)" ? .up : there == "from \(peer.place)" ? .down : nil
    guard let begun, begun != chosen else { return chosen }
    if [trails.own, trails.peer].contains(where: { Trail.exists(folder: "\(state)/\($0)") }) { return begun }
    // It was refused before it began.
    try removeFile("replication")
    return chosen
  }

  /// Before a first copy begins: the end that it comes from may have got a trail of this name already, from a state folder that
  /// is gone. It is forgotten there where rows are replaced anyway; rows that came by it stay.
  ///
  /// Errors: `checkpoint-foreign` otherwise, before anything is begun that could not be begun anew.
  func checkTrail(_ trail: TrailName, isKnownAt end: DatabaseURL, forgets: Bool) throws {
    guard !Trail.exists(folder: "\(state)/\(trail)"), try TargetEnd(end).checkpoint(of: trail) != nil else { return }
    guard forgets else {
      throw CairnError(
        .checkpointForeign, "\(end.place) was fed from a trail \(trail) that is not in \(state)",
        hint: "give the state folder of that trail, or copy everything again")
    }
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

  /// What the trail holds of commits that are not known to be at the peer, in transactions.
  func unsent() throws -> Int {
    guard let end = try Trail.end(folder: ownFolder) else { return 0 }
    return Int(clamping: end.lastTransaction - min(end.lastTransaction, try sent().transaction))
  }

  /// Nothing where the trail is another one by now.
  func sent() throws -> Sent {
    let words = try lines("sent").first?.split(separator: " ").map(String.init) ?? []
    guard words.count == 3, let end = try Trail.end(folder: ownFolder), end.id.description == words[0],
      let journal = Int64(words[1]), let transaction = UInt64(words[2])
    else { return Sent() }
    return Sent(journal: journal, transaction: transaction)
  }

  /// After a synchronisation: the peer is at `position` of the trail, behind the `transaction` (0: it got none), and has the
  /// journal up to a row, as far as the run has seen it. Nil: the run has taken no row out of the journal.
  func noteSent(journal: Int64?, transaction: UInt64, position: Position) throws {
    guard Trail.exists(folder: ownFolder) else { return }
    let (info, before) = (try Trail.info(folder: ownFolder), try sent())
    let isWhole = position >= info.end.position
    // What was taken out of the journal before is in the trail, and all of that is at the peer.
    let marked = journal == nil && isWhole ? try EmbeddedCapture(Database(path: file)).taken() : 0
    let number = isWhole ? info.lastTransaction : max(before.transaction, transaction)
    try replace("sent", ["\(info.id) \(max(before.journal, journal ?? marked)) \(number)"])
  }

  func lines(_ file: String) throws -> [String] {
    guard Folder.exists("\(state)/\(file)") else { return [] }
    do { return try File.text("\(state)/\(file)").split(separator: "\n").map(String.init) } catch {
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
