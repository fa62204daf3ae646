import Changes
import SystemKit
import Trails

/// The state folder that holds the trail of a capture, and the trail's name.
///
///     CaptureHome(place: "/var/lib/cairn", trail: trail).folder   // "/var/lib/cairn/till.pos"
package struct CaptureHome: Equatable, Sendable {
  @ByBytes package private(set) var place: String
  package let trail: TrailName

  package init(place: String, trail: TrailName) { (self.place, self.trail) = (place, trail) }

  package var folder: String { "\(place)/\(trail)" }
}

extension CaptureHome {
  /// Checks that this replication may read the trail of another replication that captures the same SQLite file.
  ///
  /// The SQLite file contains the path of the state folder and the trail's id, but any program can change both values.
  /// So all of these conditions must be true:
  ///
  /// - The folder belongs to the user of this process, and no other user can write into it.
  /// - The folder is the state folder of a replication from this file.
  /// - The folder has the trail with this id.
  ///
  /// - Throws: `source-captured` with the reason.
  package init(joining given: String, trail id: TrailID, of source: DatabaseURL) throws {
    // Resolve all links first: only the folder that is checked is used.
    let place = given.hasPrefix("/") ? FileIdentity.canonical(given) : given
    func refusal(_ why: String, _ hint: String? = nil) -> CairnError {
      CairnError(
        .sourceCaptured,
        "\(source.place) is already captured for another replication, whose state is in \(place): \(why)",
        hint: hint
          ?? "run as the user of that replication, or add an [apply.NAME] to the conf if a daemon captures the file; or end it first, with 'cairn detach \(source.shown)', and run again"
      )
    }
    guard Folder.isPrivate(place) else { throw refusal("that folder is not private to this user") }
    guard Folder.exists(place + "/replication") else {
      if let trail = TrailName(Folder.lastName(of: place)) { throw Self.daemon(trail, source, refusal) }
      throw refusal("that folder is not the state of a 'cairn replicate'")
    }
    do {
      guard try StateFolder.ends(of: place)?.from.utf8.elementsEqual(source.place.utf8) == true else {
        throw refusal(
          "that is the state of a replication from another database, so this file is a copy of it",
          "run 'cairn detach \(source.shown)', then run again")
      }
      guard try !StateFolder.isTwoWay(place) else {
        throw refusal(
          "that replication is two-way, and does not share its capture",
          "for several targets run cairnd with one [capture.NAME], and an [apply.NAME] for each target")
      }
      let trail = try Trail.names(state: place).first { name in
        let folder = "\(place)/\(name)"
        return try Folder.isPrivate(folder) && Trail.end(folder: folder)?.id == id
      }
      guard let trail else {
        throw refusal(
          "the trail that the file names does not exist",
          "run 'cairn detach \(source.shown)', then run again with --existing overwrite")
      }
      self.init(place: place, trail: trail)
    } catch let error as FileError { throw error.asCairnError(doing: "read the state folder \(place)") }
  }

  /// Returns the folder with the trail of a capture, by the place that the captured SQLite file contains. Nil if that
  /// place may not be read or lacks the trail.
  ///
  /// Any program that writes to the file can change the place. So it must be private to the user of this process. It is
  /// the folder of the trail, or the state folder of a replication from this file.
  ///
  ///     try CaptureHome.folder(of: owner.trail, in: owner.place, source)   // "/var/lib/cairn/till.pos"
  package static func folder(of id: TrailID, in given: String, _ source: DatabaseURL) throws -> String? {
    let place = given.hasPrefix("/") ? FileIdentity.canonical(given) : given
    guard Folder.isPrivate(place) else { return nil }
    if Trail.exists(folder: place) { return try Trail.end(folder: place)?.id == id ? place : nil }
    guard try StateFolder.ends(of: place)?.from.hasSameBytes(as: source.place) == true else { return nil }
    return try Trail.names(state: place).map { "\(place)/\($0)" }
      .first { try Folder.isPrivate($0) && Trail.end(folder: $0)?.id == id }
  }

  /// Returns whether the trail of a capture is known to be lost: its folder is missing, or lacks the trail. A folder
  /// that is not private to this user is not searched.
  ///
  ///     try CaptureHome.isLost(owner.trail, in: owner.place)
  package static func isLost(_ id: TrailID, in place: String) throws -> Bool {
    guard Folder.exists(place) else { return true }
    guard Folder.isPrivate(place) else { return false }
    let folders = try [place] + Trail.names(state: place).map { "\(place)/\($0)" }
    return try !folders.contains { try Folder.isPrivate($0) && Trail.end(folder: $0)?.id == id }
  }

  /// Returns the error for a source that a daemon already captures.
  private static func daemon(
    _ trail: TrailName, _ source: DatabaseURL, _ refusal: (String, String?) -> CairnError
  ) -> CairnError {
    refusal(
      "that is the trail \(trail) of a daemon",
      "add an [apply.NAME] with trail = \"\(trail)\" to the conf of that daemon and reload it; or remove [capture.\(trail.name)] from it, and run 'cairn detach \(source.shown)'"
    )
  }
}
