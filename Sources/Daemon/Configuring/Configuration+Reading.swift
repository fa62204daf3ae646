import Changes
import Conflicts
import Mapping

extension Configuration {
  /// Creates a configuration from sections that were read without problems; nil if a required section is missing.
  init?(_ sections: [ReadSection], secrets: [String: String]) {
    func all(_ key: String) -> [ReadSection] {
      sections.filter { $0.source.section.key == key }.sorted { $0.source.name < $1.source.name }
    }
    guard let own = all("node").first, let name = own.text("name") else { return nil }
    self.init(node: Node(name: name))
    own.text("state").map { node.state = $0 }
    databases = all("database").compactMap { section in
      section.text("url").map {
        var database = Database(
          name: section.source.name, url: Database.canonical($0), secret: secrets[section.source.name])
        database.sharesKeys = section.text("keys") == "shared"
        database.acceptsMovedKeys = section.text("moved_keys") == "accept"
        return database
      }
    }
    captures = all("capture").compactMap(Capture.init)
    for section in all("trail") {
      guard let history = section.history("keep") else { continue }
      histories[TrailName(section.source.name)?.description ?? "\(node.name).\(section.source.name)"] = history
    }
    applies = all("apply").compactMap { section in
      Apply(
        section, rules: sections.filter { $0.source.section.key == "table" && $0.source.name == section.source.name })
    }
    snapshots = all("snapshot").compactMap(Snapshot.init)
    pumps = all("pump").compactMap(Pump.init)
    receive = all("receive").first.flatMap(Receive.init)
    peers = all("peer").compactMap { section in
      section.grants("may").map {
        var peer = Peer(name: section.source.name, push: TrailPatterns($0.push), pull: TrailPatterns($0.pull))
        section.count("trails").map { peer.trails = $0 }
        section.count("requests").map { peer.requests = $0 }
        peer.diskBytes = section.bytes("disk")
        return peer
      }
    }
    if let section = all("limits").first {
      limits.diskBytes = section.bytes("disk")
      limits.retain = section.duration("retain")
      section.flag("give_up_slot").map { limits.givesUpSlot = $0 }
      section.bytes("block").map { limits.blockBytes = $0 }
      section.bytes("memory").map { limits.memoryBytes = $0 }
    }
    if let section = all("metrics").first, let address = section.text("listen").flatMap({ ListenAddress($0) }) {
      var metrics = Metrics(host: address.host, port: address.port)
      (metrics.tls, metrics.token) = (section.files("tls"), secrets[Metrics.credential])
      self.metrics = metrics
    }
    control.socket = all("control").first?.text("socket")
    control.group = all("control").first?.text("group")
    all("log").first?.text("level").flatMap { LogLevel(rawValue: $0) }.map { log.level = $0 }
  }
}

extension Configuration.Database {
  /// Returns the same URL, such as `sqlite:///srv/a.db`, for all spellings of the path of an SQLite file. Other URLs
  /// are unchanged.
  static func canonical(_ url: String) -> String {
    guard url.hasPrefix("sqlite:/") else { return url }
    let parts = url.dropFirst("sqlite:".count).split(separator: "/").filter { $0 != "." }
    return "sqlite:///" + parts.joined(separator: "/")
  }
}

extension Configuration.Capture {
  fileprivate init?(_ section: ReadSection) {
    guard let database = section.text("database") else { return nil }
    self.init(name: section.source.name, database: database)
    section.list("tables").map { tables = $0 }
    section.flag("statements").map { statements = $0 }
    section.count("journal_rows").map { journalRows = $0 }
    section.flag("copy").map { copiesRows = $0 }
    applied = section.text("applied").flatMap { Configuration.AppliedRows(rawValue: $0) }
    section.duration("heartbeat").map { heartbeat = $0 }
    section.duration("purge").map { purge = $0 }
  }
}

extension Configuration.Apply {
  fileprivate init?(_ section: ReadSection, rules: [ReadSection]) {
    guard let trail = section.text("trail"), let database = section.text("database") else { return nil }
    self.init(name: section.source.name, trail: trail, database: database)
    section.list("tables").map { tables = $0 }
    section.list("fire_triggers").map { fireTriggers = $0 }
    conflicts = ConflictPlan.Part(section, else: conflicts)
    section.text("local_writes").flatMap { LocalWrites(rawValue: $0) }.map { localWrites = $0 }
    section.duration("max_clock_skew").map { maxClockSkew = $0 }
    section.text("on_error").flatMap { Configuration.OnError(rawValue: $0) }.map { onError = $0 }
    existing = section.text("existing").flatMap { ExistingRows(rawValue: $0) }
    section.text("names").flatMap { NamePolicy(rawValue: $0) }.map { names = $0 }
    if let list = section.list("misfits"), let policies = try? MisfitPolicies(parsing: list.joined(separator: ",")) {
      misfits = policies
    }
    section.text("replay").flatMap { ReplayPolicy(rawValue: $0) }.map { replay = $0 }
    ddl = section.text("ddl").flatMap { DDLPolicy(rawValue: $0) }
    auditBytesPerSecond = section.text("audit").flatMap { $0 == "off" ? 0 : ByteRate($0)?.bytesPerSecond }
    self.rules = rules.compactMap(TableRule.init)
    for (rule, section) in zip(self.rules, rules.filter { $0.text("from") != nil }) {
      let conflicts = ConflictPlan.Part(section)
      if conflicts != .init() { tableConflicts.append(.init(from: rule.from, to: rule.to, conflicts)) }
      section.text("local_writes").flatMap { LocalWrites(rawValue: $0) }.map {
        tableLocalWrites.append(.init(from: rule.from, to: rule.to, $0))
      }
    }
  }
}

extension Configuration.Pump {
  fileprivate init?(_ section: ReadSection) {
    guard let trails = section.list("trail") else { return nil }
    let way = section.text("to") != nil ? Direction.push : .pull
    guard let url = (section.text("to") ?? section.text("from")).flatMap({ PeerURL($0) }) else { return nil }
    self.init(name: section.source.name, trails: TrailPatterns(trails), way: way, url: url)
    peer = section.text("peer")
    tls = section.files("tls")
    bytesPerSecond = section.text("rate").flatMap { ByteRate($0)?.bytesPerSecond }
  }
}

extension Configuration.Receive {
  fileprivate init?(_ section: ReadSection) {
    guard let address = section.text("listen").flatMap({ ListenAddress($0) }) else { return nil }
    self.init(host: address.host, port: address.port)
    tls = section.files("tls")
    section.flag("insecure").map { isInsecure = $0 }
    section.count("connections").map { connections = $0 }
  }
}

extension TableRule {
  fileprivate init?(_ section: ReadSection) {
    guard let from = section.text("from") else { return nil }
    self.init(from: from)
    to = section.text("to")
    filter = section.text("where")
    columns = section.columns("columns")
    if let text = section.text("delete") {
      delete = text.hasPrefix("mark:") ? .mark(column: String(text.dropFirst(5))) : text == "keep" ? .keep : .apply
    }
    section.text("mode").flatMap { Mode(rawValue: $0) }.map { mode = $0 }
  }
}
