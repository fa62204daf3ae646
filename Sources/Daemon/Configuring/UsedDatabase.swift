import Changes

/// A database of the conf, with the captures and applies that use it. It is known even if the conf has problems.
///
///     UsedDatabase(url: "sqlite:///srv/pos/pos.db", workers: ["capture.pos"])
package struct UsedDatabase: Equatable, Sendable {
  /// The URL, as the conf has it.
  @ByBytes package var url: String
  /// The names of the captures and applies, such as `capture.pos`.
  @ByBytes package var workers: [String]

  package init(url: String, workers: [String]) { (self.url, self.workers) = (url, workers) }

  static func all(_ sections: [ReadSection]) -> [UsedDatabase] {
    sections.filter { $0.source.section.key == "database" }.compactMap { database in
      guard let url = database.text("url") else { return nil }
      let users = sections.filter { section in
        ["capture", "apply"].contains(section.source.section.key) && section.text("database") == database.source.name
      }
      return UsedDatabase(url: url, workers: users.map { "\($0.source.section.key).\($0.source.name)" }.sorted())
    }
  }
}
