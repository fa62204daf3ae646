import Changes
import Glibc
import SystemKit
import Trails

/// The state folders and the trails in them.
package enum StateFolders {
  /// The name and the folder of a trail.
  package struct Entry: Equatable, Sendable {
    package let name: TrailName
    @ByBytes package private(set) var folder: String
  }

  /// Returns the default parent of state folders: `$XDG_STATE_HOME/cairn`, or `~/.local/state/cairn`. The folder may be
  /// missing.
  ///
  /// Source: XDG Base Directory Specification, which ignores a relative `$XDG_STATE_HOME`.
  package static func base() -> String {
    if let given = environment("XDG_STATE_HOME"), given.hasPrefix("/") { return given + "/cairn" }
    return (environment("HOME") ?? accountHome ?? "") + "/.local/state/cairn"
  }

  /// Returns the trails in the given state folder, or in all state folders if nil, sorted by folder and name. If the
  /// given folder's replication reads a trail in another state folder, the trails of that folder are included.
  package static func entries(in state: String?) throws -> [Entry] {
    var folders = try folders(state)
    if let state {
      let home = try StateFolder.home(of: state)
      if !home.hasSameBytes(as: state) { folders.append(home) }
    }
    return try folders.flatMap { folder in
      try Trail.names(state: folder).map { Entry(name: $0, folder: "\(folder)/\($0)") }
    }
  }

  /// Returns the trails of ``entries(in:)`` with information from their files.
  package static func trails(in state: String?) throws -> [TrailInfo] {
    try entries(in: state).map { try Trail.info(folder: $0.folder) }
  }

  package static func folders(_ state: String?) throws -> [String] {
    if let state { return [state] }
    let base = base()
    do throws(FileError) {
      return try Folder.names(base).map { "\(base)/\($0)" }.filter(Folder.isFolder)
    } catch {
      if error.isMissing { return [] }
      throw error.asCairnError(doing: "list the state folders")
    }
  }

  private static func environment(_ name: String) -> String? {
    guard let value = getenv(name), value.pointee != 0 else { return nil }
    return String(cString: value)
  }

  private static var accountHome: String? {
    guard let account = getpwuid(getuid()), let home = account.pointee.pw_dir else { return nil }
    return String(cString: home)
  }
}
