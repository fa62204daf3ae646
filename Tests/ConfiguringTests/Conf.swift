import Configuring

/// A conf that loads, for tests that break or extend it.
enum Conf {
  static let good = """
    [node]
    name = "hq"
    [database.shop]
    url = "sqlite:///srv/shop.db"
    [database.erp]
    url = "postgresql://cairn@db/erp"
    [capture.shop]
    database = "shop"
    [apply.erp]
    trail = "hq.shop"
    database = "erp"

    """

  static func load(
    _ text: String, _ more: (path: String, text: String)..., credentials: [String: ConfCredential] = [:],
    environment: [String: String] = [:]
  ) -> LoadedConfiguration {
    LoadedConfiguration(
      files: [ConfFile(path: "cairn.toml", text: text)] + more.map { ConfFile(path: $0.path, text: $0.text) },
      credentials: credentials, environment: { environment[$0] })
  }
}
