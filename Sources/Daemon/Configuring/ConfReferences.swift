import Changes
import Conflicts

/// Checks that the databases and trails that sections name exist, and that sections fit together. For example, a
/// database can have only one capture.
struct ConfReferences {
  let node: String?
  private let databases: [ReadSection]
  let captures: [ReadSection]
  private let applies: [ReadSection]
  private let rules: [ReadSection]
  let pumps: [ReadSection]
  let trails: [ReadSection]
  let receive: ReadSection?
  let peers: [ReadSection]
  let metrics: ReadSection?
  // Includes sections with problems.
  private let databaseNames: [String]
  /// Whether all files could be read. If not, a section that seems to be missing may be in an unreadable file.
  let isWhole: Bool
  /// Whether sections `[peer.NAME]` may be added later. A trail that no peer may push yet is then no problem.
  let awaitsPeers: Bool
  private let fileIdentity: (String) -> String
  private(set) var problems: [ConfProblem] = []
  var notices: [String] = []

  init(_ sections: [ReadSection], isWhole: Bool, awaitsPeers: Bool = false, fileIdentity: @escaping (String) -> String)
  {
    func all(_ key: String) -> [ReadSection] { sections.filter { $0.source.section.key == key } }
    node = all("node").first?.text("name")
    (databases, captures, applies, rules) = (all("database"), all("capture"), all("apply"), all("table"))
    (pumps, receive, peers, metrics) = (all("pump"), all("receive").first, all("peer"), all("metrics").first)
    trails = all("trail")
    databaseNames = databases.map(\.source.name)
    (self.isWhole, self.awaitsPeers, self.fileIdentity) = (isWhole, awaitsPeers, fileIdentity)
    for section in captures + applies { checkDatabase(section) }
    checkCaptures()
    for apply in applies {
      checkTrail(apply)
    }
    checkApplies()
    for capture in captures { checkApplied(capture) }
    for apply in applies {
      checkRules(apply.source.name)
      checkDecider(apply)
    }
    for snapshot in all("snapshot") {
      checkDatabase(snapshot)
      let database = databases.first { $0.source.name == snapshot.text("database") }
      checkSnapshot(snapshot, url: database?.text("url"))
    }
    checkNetwork()
  }

  private mutating func checkDatabase(_ section: ReadSection) {
    guard let name = section.text("database"), isWhole, !databaseNames.contains(name) else { return }
    let near = name.nearest(in: databaseNames) ?? (databaseNames.count == 1 ? databaseNames[0] : nil)
    let mend = near.map { "write database = \"\($0)\", or add" } ?? "add"
    add(
      section.place("database"), "there is no [database.\(name)]", "\(mend) a section [database.\(name)] with its url")
  }

  // Equal for two sections of the same database; nil if the section names no database.
  private func identity(_ section: ReadSection) -> String? {
    guard let name = section.text("database") else { return nil }
    guard let url = databases.first(where: { $0.source.name == name })?.text("url") else { return name }
    let canonical = Configuration.Database.canonical(url)
    let scheme = "sqlite://"
    return canonical.hasPrefix(scheme) ? scheme + fileIdentity(String(canonical.dropFirst(scheme.count))) : canonical
  }

  private mutating func checkCaptures() {
    var first: [String: ReadSection] = [:]
    for capture in captures {
      guard let database = identity(capture) else { continue }
      if let other = first[database] {
        add(
          capture.place("database"),
          "database \(capture.text("database") ?? "") is captured already, by \(other.source.title) at \(other.source.place)",
          "remove \(capture.source.title); several applies can read the one trail")
      } else {
        first[database] = capture
      }
    }
  }

  private mutating func checkTrail(_ apply: ReadSection) {
    guard let text = apply.text("trail"), let trail = TrailName(text), let node else { return }
    guard trail.origin == node else {
      checkAllowList(apply, trail)
      checkComes(trail, apply.place("trail"), for: apply.source.title)
      return
    }
    guard let capture = captures.first(where: { $0.source.name == trail.name }) else {
      checkOwn(trail, node, at: apply.place("trail"), as: "trail")
      return
    }
    if let source = identity(capture), source == identity(apply) {
      add(
        apply.place("database"), "\(apply.source.title) would write the database that its trail \(text) comes from",
        "name another database")
    }
  }

  // The operator must list the tables that a trail of another node may change.
  private mutating func checkAllowList(_ apply: ReadSection, _ trail: TrailName) {
    guard apply.values["tables"] == nil, apply.wrong["tables"] == nil else { return }
    add(
      .confMissing, apply.place("trail"),
      "\(apply.source.title) has no 'tables': trail \(trail) comes from node \(trail.origin), which may write only the tables that are listed",
      "add tables = [\"*\"] to \(apply.source.title) for all tables, or name them as in tables = [\"sales.*\"]")
  }

  private mutating func checkApplies() {
    var first: [String: ReadSection] = [:]
    for apply in applies {
      guard let trail = apply.text("trail"), let database = identity(apply) else { continue }
      if let other = first.updateValue(apply, forKey: trail + "\n" + database) {
        add(
          apply.place("trail"),
          "trail \(trail) is brought into database \(apply.text("database") ?? "") already, by \(other.source.title) at \(other.source.place)",
          "remove \(apply.source.title), or name another database")
        first[trail + "\n" + database] = other
      }
    }
  }

  // With `applied = "include"`, rows must not return through the trail to their origin.
  private mutating func checkApplied(_ capture: ReadSection) {
    guard capture.text("applied") == "include", let database = identity(capture) else { return }
    for apply in applies where identity(apply) == database {
      guard let source = self.capture(of: apply), let origin = identity(source),
        let back = wayBack(from: database, to: origin)
      else { continue }
      add(
        .confValue, capture.place("applied"),
        "applied = \"include\" cannot be kept: rows of \(apply.source.title) come from database \(source.text("database") ?? ""), and \(back.source.title) brings them back there",
        "write applied = \"skip\", or remove one of the two applies")
      return
    }
  }

  private func capture(of apply: ReadSection) -> ReadSection? {
    guard let node else { return nil }
    return captures.first { "\(node).\($0.source.name)" == apply.text("trail") }
  }

  // Searches a chain from database `start` to `end`, in which each apply writes to the source of the next one. Returns
  // the last apply.
  private func wayBack(from start: String, to end: String) -> ReadSection? {
    var reached: Set<String> = [start]
    var new = [start]
    while let database = new.popLast() {
      for apply in applies where capture(of: apply).flatMap(identity) == database {
        guard let next = identity(apply), reached.insert(next).inserted else { continue }
        if next == end { return apply }
        new.append(next)
      }
    }
    return nil
  }

  private mutating func checkRules(_ apply: String) {
    var sources: [NameKey: ConfPlace] = [:]
    var targets: [NameKey: (from: String, place: ConfPlace)] = [:]
    for rule in rules where rule.source.name == apply {
      if let columns = rule.columns("columns"), case let (column?, place) = (markColumn(rule), rule.place("delete")),
        columns.contains(where: { $0.name.sqliteKey == column.sqliteKey })
      {
        add(
          .confValue, place, "column \(column) is the delete mark, and 'columns' gives it another value",
          "remove it from columns")
      }
      if rule.text("mode") == "history", let delete = rule.text("delete"), delete != "apply" {
        add(
          .confValue, rule.place("delete"),
          "delete = \"\(delete)\" has no meaning in mode \"history\", which keeps every change",
          "remove delete")
      }
      if rule.text("mode") == "history", let writes = rule.text("local_writes"), ["allow", "undo"].contains(writes) {
        add(
          .confValue, rule.place("local_writes"),
          "local_writes = \"\(writes)\" has no meaning in mode \"history\", which adds a row for every change",
          "remove local_writes")
      }
      guard let from = rule.text("from") else { continue }
      if let other = sources.updateValue(rule.place("from"), forKey: NameKey(Self.folded(from))) {
        add(.confTwice, rule.place("from"), "table \(from) has a rule already, at \(other)", "combine the two rules")
        continue
      }
      guard !TablePatterns.isPattern(from) else {
        guard rule.text("to") != nil else { continue }
        add(
          .confValue, rule.place("to"), "'to' names one table, but the rule is for all tables that match \(from)",
          "remove 'to', or write a rule for each table")
        continue
      }
      let to = rule.text("to") ?? from
      if let other = targets.updateValue((from, rule.place("to")), forKey: NameKey(Self.folded(to))) {
        add(
          .confTwice, rule.values["to"] == nil ? rule.place("from") : rule.place("to"),
          "tables \(other.from) and \(from) would both become \(to); the other rule is at \(other.place)",
          "give one of them another 'to'")
      }
    }
  }

  // A rule that only one node may evaluate needs the option `decides`.
  private mutating func checkDecider(_ apply: ReadSection) {
    let own = rules.filter { $0.source.name == apply.source.name }
    for section in [apply] + own where section.text("decides") == nil && apply.text("decides") == nil {
      let whole = section.text("conflict").flatMap { try? ConflictRules.Rule($0) }.map { ("conflict", $0) }
      let columns = section.rules("conflicts").map { ("conflicts", $0.rule) }
      guard let (key, rule) = ((whole.map { [$0] } ?? []) + columns).first(where: \.1.needsDecider) else { continue }
      add(
        .confValue, section.place(key), "\(rule.text) does not name the node that calls the function",
        "add decides = \"NODE\" with a node whose database is PostgreSQL, the same in the applies of all nodes")
    }
  }

  private func markColumn(_ rule: ReadSection) -> String? {
    guard let text = rule.text("delete"), text.hasPrefix("mark:") else { return nil }
    return String(text.dropFirst(5))
  }

  private static func folded(_ table: String) -> String {
    let name = table.asciiLowercased
    return name.hasPrefix("public.") ? String(name.dropFirst("public.".count)) : name
  }

  mutating func add(_ place: ConfPlace, _ message: String, _ hint: String) {
    add(.confReference, place, message, hint)
  }

  mutating func add(_ code: ErrorCode, _ place: ConfPlace, _ message: String, _ hint: String) {
    problems.append(ConfProblem(code, at: place, message, hint: hint))
  }
}
