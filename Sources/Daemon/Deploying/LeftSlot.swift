import Capturing
import Changes
import Configuring
import Endpoints
import PostgresKit
import SystemKit
import Trails

/// A slot whose capture was removed from the conf. The server keeps log for it until the slot is dropped.
package struct LeftSlot: Equatable, Sendable {
  /// The state of the slot at the server.
  package enum Standing: Equatable, Sendable {
    case gone
    case inUse
    /// The slot exists. The server keeps this many bytes of log for it.
    case left(bytes: Int64)
    /// The server could not be queried, for the reason in the text.
    case unknown(String)
  }

  /// The trail that the capture wrote, whose folder still exists.
  package let trail: TrailName
  @ByBytes package private(set) var name: String
  /// The URL of the source as it was configured, without a password.
  @ByBytes package private(set) var url: String
  @ByBytes private var file: String

  /// Writes the URL of the source to a file in the folder of its trail.
  package static func note(source url: String, folder: String) throws {
    let file = Self.file(folder)
    do throws(FileError) {
      let known = Folder.exists(file) ? try File.text(file) : ""
      guard Folder.exists(folder), known != url else { return }
      try File.replace(file, text: url, permissions: 0o644)
    } catch { throw error.asCairnError(doing: "note the source of a trail") }
  }

  /// Returns the slots of this node's PostgreSQL captures that were removed from the conf while their trails stayed in
  /// the state folder.
  ///
  /// - Parameter captures: The names of the configured captures.
  package static func all(state: String, node: String, captures: Set<String>) -> [LeftSlot] {
    let trails = (try? Trail.names(state: state)) ?? []
    return trails.filter { $0.origin == node && !captures.contains($0.name) }.compactMap { trail in
      let folder = "\(state)/\(trail)"
      guard Folder.exists(file(folder)), let url = try? File.text(file(folder)),
        let id = try? Trail.info(folder: folder).id
      else { return nil }
      return LeftSlot(trail: trail, name: PostgresSource.name(of: id), url: url, file: file(folder))
    }
  }

  private static func file(_ folder: String) -> String { folder + "/source" }

  /// Asks the server for the state of the slot. The password comes from a configured database with the same URL, if
  /// any.
  package func standing(_ databases: [Configuration.Database]) -> Standing {
    do {
      let known = databases.first { $0.url == url }
      return try look(at: known?.location() ?? DatabaseURL(url))
    } catch { return .unknown(CairnError(enveloping: error, doing: "look for slot \(name)").message) }
  }

  private func look(at location: DatabaseURL) throws -> Standing {
    guard case .postgres(let uri) = location else { return .gone }
    let connection = try PostgresConnection(uri)
    let row = try connection.query(
      """
      SELECT active, coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint, 0)
      FROM pg_replication_slots WHERE slot_name = $1
      """, [name]
    ).first
    guard let row, row.count == 2 else { return .gone }
    return row[0] == "t" ? .inUse : .left(bytes: row[1].flatMap { Int64($0) } ?? 0)
  }

  /// Deletes the file that names the source of the slot. Call it after the slot was dropped.
  package func forget() { try? Folder.remove(file) }

  /// The shell command that drops the slot.
  package var command: String { Self.command(url, name) }

  package static func command(_ url: String, _ slot: String) -> String {
    let isPlain = url.allSatisfy { $0.isLetter || $0.isNumber || "-._~:/@".contains($0) }
    return "cairn detach \(isPlain ? url : "'\(url)'") --slot \(slot)"
  }

  package var place: String { (try? DatabaseURL(url).place) ?? url }
}
