import Changes
import Comparing
import Endpoints
import Mapping
import PostgresKit
import SQLiteKit
import SystemKit

extension DatabaseURL {
  fileprivate func openForComparison() throws -> CompareDatabase {
    switch self {
    case .sqlite(let path):
      let database = try Ends.open(path, mode: .readOnly)
      return try CompareDatabase(.sqlite(database))
    case .postgres(let uri):
      let connection = try PostgresConnection(uri, application: "cairn compare")
      try connection.execute("SET row_security = off")
      return try CompareDatabase(.postgres(connection))
    }
  }

  package var comparePlace: CompareEnds.Place {
    switch self {
    case .sqlite(let path): .sqlite(path: path)
    case .postgres(let uri): .postgres(uri: uri)
    }
  }
}

extension Comparison {
  /// Prepares a comparison of two databases.
  /// - Parameter state: The state folder of the replication between the two databases; nil for
  ///   ``StateFolder/defaultPath(from:to:)``.
  package convenience init(
    from: DatabaseURL, to: DatabaseURL, state: String?, options: Options, watch: CompareWatch
  ) throws {
    let (source, target) = (from.canonical, to.canonical)
    guard source != target else { throw Ends.same(source.place) }
    let folder = state ?? StateFolder.defaultPath(from: source, to: target)
    if state != nil || Folder.exists(folder) { try StateFolder.check(folder, from: source.place, to: target.place) }
    var options = options
    options.tables = try options.tables ?? StateFolder.tables(in: folder)
    options.names = try options.names ?? StateFolder.names(in: folder)
    options.trail = TrailPlace(
      state: try StateFolder.home(of: folder), name: TrailName(origin: "local", name: source.stem))
    try self.init(source, target, options, watch)
  }

  /// Prepares a comparison of the source and target of a daemon's apply. The trail shows which rows are in flight.
  package convenience init(
    from: DatabaseURL, to: DatabaseURL, trail: TrailName, state: String, options: Options, watch: CompareWatch
  ) throws {
    let (source, target) = (from.canonical, to.canonical)
    guard source != target else { throw Ends.same(source.place) }
    var options = options
    options.trail = TrailPlace(state: state, name: trail)
    try self.init(source, target, options, watch)
  }

  /// Prepares a comparison of a source at another node with a target at this node. The other node reads the source's
  /// rows on request. This node's copy of the trail shows which rows are in flight.
  package convenience init(
    origin: OriginSource, to: DatabaseURL, trail: TrailName, state: String, options: Options, watch: CompareWatch
  ) throws {
    let target = to.canonical
    var options = options
    options.trail = TrailPlace(state: state, name: trail)
    let source = try CompareDatabase(.origin(origin))
    self.init(
      CompareEnds(source: .origin(origin, source.engine), target: target.comparePlace), source: source,
      target: try target.openForComparison(), options: options, watch: watch)
  }

  private convenience init(
    _ source: DatabaseURL, _ target: DatabaseURL, _ options: Options, _ watch: CompareWatch
  ) throws {
    try self.init(
      CompareEnds(source: source.comparePlace, target: target.comparePlace), source: source.openForComparison(),
      target: target.openForComparison(), options: options, watch: watch)
  }
}
