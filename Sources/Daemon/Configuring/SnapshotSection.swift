import Changes

extension Configuration {
  /// `[snapshot.NAME]`: a file that the daemon makes of a database at intervals, and the peers that may fetch it.
  ///
  ///     Configuration.Snapshot(name: "prices", database: "erp").every   // one hour
  package struct Snapshot: Equatable, Sendable {
    @ByBytes package var name: String
    @ByBytes package var database: String
    package var every = Duration.seconds(3600)
    /// The number of files that are kept.
    package var keep = 2
    /// The tables of the file, as patterns of names.
    @ByBytes package var tables: [String] = ["*"]
    /// The condition of the rows in the file; nil: all rows.
    @ByBytes package var condition: String?
    /// The names of the peers that may fetch the file.
    @ByBytes package var peers: [String] = []

    package init(name: String, database: String) { (self.name, self.database) = (name, database) }
  }

  /// Returns the names of the snapshots that a peer may fetch.
  package func snapshots(for peer: String) -> [String] {
    guard peers.contains(where: { $0.name.hasSameBytes(as: peer) }) else { return [] }
    return snapshots.filter { $0.peers.contains { $0.hasSameBytes(as: peer) } }.map(\.name)
  }
}

extension Configuration.Snapshot {
  init?(_ section: ReadSection) {
    guard let database = section.text("database") else { return nil }
    self.init(name: section.source.name, database: database)
    section.duration("every").map { every = $0 }
    section.count("keep").map { keep = $0 }
    section.list("tables").map { tables = $0 }
    condition = section.text("where")
    section.list("peers").map { peers = $0 }
  }
}

extension ConfReferences {
  /// Checks the database and the peers of a snapshot.
  mutating func checkSnapshot(_ section: ReadSection, url: String?) {
    if let url, !url.hasPrefix("sqlite:") {
      add(
        .confValue, section.place("database"), "\(section.source.title) is of a PostgreSQL database",
        "name the SQLite database of an apply that reads its trail")
    }
    guard isWhole, !awaitsPeers else { return }
    let known = peers.map(\.source.name)
    for peer in section.list("peers") ?? [] where !known.contains(where: { $0.hasSameBytes(as: peer) }) {
      let near = peer.nearest(in: known).map { "write \"\($0)\", or add" } ?? "add"
      add(
        section.place("peers"), "there is no [peer.\(peer)]",
        "\(near) a section [peer.\(peer)] with may = { pull = [] }")
    }
  }
}

extension OptionTable {
  static let snapshot = Section(
    key: "snapshot", form: .named, since: "0.2.0",
    help: "a file with the rows of an SQLite database at one moment, made at intervals, which peers may fetch",
    details: """
      The files are in `snapshots/NAME` of the state folder. Each is a complete SQLite file without anything of Cairn \
      except the position for which it is true. They do not count against `[limits] disk`. A peer fetches the newest \
      one over the listener of [receive], with `cairn snapshot fetch`.
      """, example: "stock",
    options: [
      Option("database", .database, required: true, "the SQLite database", example: "\"pos\""),
      Option(
        "every", .duration(.seconds(1) ... .seconds(31_536_000)), default: "\"1 hour\"",
        "the time from one file to the next", example: "\"15 min\""),
      Option(
        "keep", .count(1...1000), default: "2", "the number of files that are kept",
        details: "A peer that is interrupted can go on with its download as long as that file is kept.", example: "3"),
      Option(
        "tables", .patterns, default: "[\"*\"]", "the tables of the file",
        details: "If tables are left out, the file has no views, triggers and virtual tables.",
        example: "[\"item\", \"price*\"]"),
      Option(
        "where", .sql, absence: "all rows", "the rows of the file",
        details: "The expression applies to each table by itself, so all tables need its columns.",
        example: "\"store = 7\""),
      Option(
        "peers", .peers, absence: "no peer", "the peers that may fetch the files",
        details: "Each needs a section [peer.NAME].", example: "[\"hq\"]"),
    ])
}
