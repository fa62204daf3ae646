import Applying
import Changes
import Configuring
import Endpoints
import Mapping
import PostgresKit
import SQLiteKit
import SystemKit

/// Finds the logs of conflicts in the databases of a configuration, of a state folder or of a URL.
package enum ConflictLogs {
  package typealias Entry = (url: DatabaseURL, log: ConflictLog)

  /// Opens the conflict log of a database for reading and writing.
  package static func open(_ url: DatabaseURL) throws -> ConflictLog {
    switch url {
    case .sqlite(let path): ConflictLog(try Ends.open(path, mode: .readWrite))
    case .postgres(let uri): ConflictLog(try PostgresConnection(uri))
    }
  }

  /// Returns the tables of the database `url` to which applies in the conf may write rows of `trail`. Returns all
  /// tables if the conf has no apply for the database.
  ///
  /// - Throws: `table-forbidden` if the conf has applies that write to the database, but none of them reads this trail.
  package static func scope(
    of trail: TrailName, into url: DatabaseURL, by configuration: Configuration
  ) throws -> TargetScope {
    let applies = try configuration.applies.filter { apply in
      try configuration.database(apply.database)?.location().canonical.place == url.canonical.place
    }
    guard !applies.isEmpty else { return TargetScope() }
    let lists = applies.filter { TrailName($0.trail) == trail }.map(\.tables)
    guard !lists.isEmpty else {
      throw CairnError(
        .tableForbidden,
        "the conflict log of \(url.place) names trail \(trail), which no apply in the conf writes to that database",
        hint: "write the row by hand if the apply was removed", remedy: .badInput)
    }
    return TargetScope(lists.flatMap(\.self))
  }

  /// Returns the targets of a configuration, sorted by their names in the conf.
  package static func databases(of configuration: Configuration) throws -> [DatabaseURL] {
    let names = Set(configuration.applies.map(\.database))
    return try configuration.databases.filter { names.contains($0.name) }.map { try $0.location() }
  }

  /// Returns the sources and targets of the replications in a state folder. If `state` is nil, reads all state folders
  /// in `StateFolders.base()`.
  package static func databases(inState state: String?) throws -> [DatabaseURL] {
    var urls: [DatabaseURL] = []
    for place in try StateFolders.places(in: state) {
      let url = try DatabaseURL(place.hasPrefix("/") ? "sqlite:" + place : PostgresPlace.uri(of: place))
      if case .sqlite(let path) = url, FileIdentity(path: path) == nil { continue }
      if !urls.contains(url) { urls.append(url) }
    }
    return urls
  }
}

extension StateFolders {
  static func places(in state: String?) throws -> [String] {
    try folders(state).flatMap { folder -> [String] in
      guard Folder.exists("\(folder)/replication") else { return [] }
      do {
        let lines = try File.text("\(folder)/replication").split(at: "\n")
        return ["from ", "to "].compactMap { word in
          lines.first { $0.hasPrefix(word) }.map { String($0.dropFirst(word.count)) }
        }
      } catch let error as FileError { throw error.asCairnError(doing: "read the state") }
    }
  }
}
