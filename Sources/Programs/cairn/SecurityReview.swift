import Applying
import Changes
import Configuring
import ControlAPI
import Deploying
import Glibc
import NetKit
import PostgresKit
import SystemKit
import Trust

/// `cairn check --config DIR --security`: prints the facts about a node for a security review. Weak settings are marked
/// WEAK, with a command or setting that improves them.
///
/// ```
/// database erp: role cairn, rights: none beyond its grants
/// WEAK  metrics: listens on 0.0.0.0:7421 without authentication
/// hint: write listen = "127.0.0.1:7421" in [metrics]
/// ```
final class SecurityReview {
  struct Finding: Equatable {
    @ByBytes var subject: String
    @ByBytes var fact: String
    /// The command or setting that improves a weak setting; empty if the setting is not weak.
    var hint = ""
    var isWeak: Bool { !hint.isEmpty }
  }

  private let configuration: Configuration
  private let loaded: LoadedConfiguration
  private let isJSON: Bool
  private var findings: [Finding] = []

  init(_ configuration: Configuration, _ loaded: LoadedConfiguration, isJSON: Bool) {
    (self.configuration, self.loaded, self.isJSON) = (configuration, loaded, isJSON)
  }

  /// Prints the review. Returns exit status 1 if any setting is weak, else 0.
  func run() -> Int32 {
    reviewFiles()
    for database in configuration.databases { review(database) }
    reviewReceive()
    for peer in configuration.peers { review(peer) }
    for pump in configuration.pumps { review(pump) }
    for apply in configuration.applies { review(apply) }
    reviewControl()
    reviewMetrics()
    reviewLimits()
    let weak = findings.filter(\.isWeak).count
    say(
      weak == 0
        ? "all facts meet the advice of docs/guides/review-security.md"
        : "\(weak) of \(findings.count.counted("fact")) \(weak == 1 ? "is" : "are") below the advice of docs/guides/review-security.md",
      [("event", .text("reviewed")), ("facts", .integer(Int64(findings.count))), ("weak", .integer(Int64(weak)))])
    return weak == 0 ? 0 : 1
  }

  private func add(_ subject: String, _ fact: String, weak hint: String? = nil) {
    let finding = Finding(subject: subject, fact: fact, hint: hint ?? "")
    findings.append(finding)
    let plain = "\(subject): \(fact)"
    say(
      finding.isWeak ? "WEAK  \(plain)" : plain,
      [
        ("event", .text("security")), ("subject", .text(subject)), ("fact", .text(fact)),
        ("weak", .bool(finding.isWeak)), ("hint", finding.isWeak ? .text(finding.hint) : .null),
      ])
    // A finding is printed on one line, also if its text contains line breaks.
    if finding.isWeak, !isJSON { Terminal.print("        hint: \(finding.hint)") }
  }

  private func say(_ text: String, _ members: [(String, JSONObject.Value)]) {
    Terminal.print(isJSON ? JSONObject(members).line : text)
  }

  // MARK: Files

  private func reviewFiles() {
    let service = Folder.owner(configuration.node.state)?.user
    for file in loaded.files {
      review(file, "conf", barring: 0o022, "chmod go-w", owners: [0, service].compactMap { $0 })
    }
    for file in loaded.credentialFiles { review(file, "credential", barring: 0o077, "chmod 600", owners: []) }
    review(configuration.node.state, "state", barring: 0o007, "chmod o-rwx", owners: [])
    let peers = configuration.node.state + "/peers"
    var keys = ["node.key", "ca.key"].map { "\(peers)/\($0)" }
    keys += PeerFolder(state: configuration.node.state).joinedNames.map { "\(peers)/joined/\($0)/node.key" }
    keys += [configuration.receive?.tls?.key].compactMap { $0 } + configuration.pumps.compactMap { $0.tls?.key }
    for key in Set(keys).sorted() where Folder.exists(key) {
      review(key, "key", barring: 0o077, "chmod 600", owners: [])
    }
  }

  /// Adds the owner and the mode of a file to the review.
  /// - Parameter bits: The permission bits that must not be set.
  /// - Parameter owners: The users that may own the file; empty for any user.
  private func review(_ path: String, _ subject: String, barring bits: UInt32, _ command: String, owners: [UInt32]) {
    guard let (user, mode) = Folder.owner(path) else { return }
    let name = Account(user: user)?.name ?? String(user)
    let fact = "\(path) belongs to \(name), mode \(String(mode, radix: 8))"
    if mode & bits != 0 { return add(subject, fact, weak: "run: \(command) \(path)") }
    if !owners.isEmpty, !owners.contains(user), user != Account.current {
      return add(subject, fact, weak: "run: chown root \(path)")
    }
    add(subject, fact)
  }

  // MARK: Databases

  private func review(_ database: Configuration.Database) {
    let subject = "database \(database.name)"
    do {
      switch try database.location() {
      case .sqlite(let path): review(sqlite: path, subject)
      case .postgres(let uri): try review(postgres: uri, database, subject)
      }
    } catch {
      let error = Cairn.envelope(error)
      add(subject, "could not be checked: \(error.message)", weak: error.hint)
    }
  }

  private func review(sqlite path: String, _ subject: String) {
    var info = stat()
    guard lstat(path, &info) == 0 else { return add(subject, "file \(path) does not exist yet") }
    if info.st_mode & S_IFMT == S_IFLNK {
      add(subject, "\(path) is a symbolic link", weak: "write the path of the file itself in the url")
    }
    review(path, subject, barring: 0o002, "chmod o-w", owners: [])
    review(Folder.parent(of: path), subject, barring: 0o002, "chmod o-w", owners: [])
  }

  private func review(postgres uri: String, _ database: Configuration.Database, _ subject: String) throws {
    reviewTransport(uri, subject)
    let server = try PostgresConnection(uri, application: "cairn check")
    let row =
      try server.query(
        """
        SELECT rolname, rolsuper, rolcreaterole, rolcreatedb, rolbypassrls, rolreplication FROM pg_roles
        WHERE rolname = current_user
        """
      ).first?.map { $0 ?? "" } ?? []
    guard row.count == 6 else { return }
    let isSource = configuration.captures.contains { $0.database == database.name }
    let rights = zip(["SUPERUSER", "CREATEROLE", "CREATEDB", "BYPASSRLS", "REPLICATION"], row.dropFirst())
      .filter { $0.1 == "t" }.map { $0.0 }
    let excess = rights.filter { right in
      // A capture needs a slot; whether rows hidden by policies are to be copied is the operator's choice.
      switch right {
      case "REPLICATION": !isSource
      case "BYPASSRLS": !isSource
      default: true
      }
    }
    let shown = rights.isEmpty ? "none beyond its grants" : rights.joined(separator: ", ")
    let fact = "role \(row[0]) at \(server.place), rights: \(shown)"
    if excess.isEmpty {
      add(subject, fact)
    } else if excess.contains("SUPERUSER") {
      add(subject, fact, weak: "name another role in the url; docs/security.md lists its grants")
    } else {
      let list = excess.map { "NO\($0)" }.joined(separator: " ")
      add(subject, fact, weak: "as a superuser: ALTER ROLE \(row[0].quotedName) \(list)")
    }
    if isSource { try reviewMessages(server, subject) }
    if let notice = try server.barNotice() {
      add(subject, notice, weak: "update the server to the latest minor release of its version")
    } else {
      add(subject, "the server refuses Cairn's reads of views and foreign tables")
    }
    if configuration.applies.contains(where: { $0.database.hasSameBytes(as: database.name) }) {
      try reviewSchemas(server, subject)
    }
    let schemas = try server.query(
      """
      SELECT n.nspname, r.rolname, \(OwnSchema.isTrusted("r")) FROM pg_namespace n
      JOIN pg_roles r ON r.oid = n.nspowner WHERE n.nspname = 'cairn' OR n.nspname LIKE 'cairn\\_%'
      """)
    for schema in schemas.map({ $0.map { $0 ?? "" } }) {
      let fact = "schema \(schema[0]) belongs to role \(schema[1])"
      let hint = "as a superuser: ALTER SCHEMA \(schema[0].quotedName) OWNER TO \(row[0].quotedName)"
      add(subject, fact, weak: schema[2] == "t" ? nil : hint)
    }
  }

  /// Adds to the review the schemas whose owner can replace a table while apply writes to it.
  private func reviewSchemas(_ server: PostgresConnection, _ subject: String) throws {
    for schema in try ExchangeableSchemas(server).all {
      add(subject, ExchangeableSchemas.fact(schema), weak: ExchangeableSchemas.hint(schema))
    }
  }

  /// Adds to the review whether every role may write logical messages into the log that capture reads.
  private func reviewMessages(_ server: PostgresConnection, _ subject: String) throws {
    let isPublic = try server.first(
      """
      SELECT bool_or(proacl IS NULL OR EXISTS (SELECT FROM aclexplode(proacl) AS a WHERE a.grantee = 0
        AND a.privilege_type = 'EXECUTE')) FROM pg_proc
      WHERE proname = 'pg_logical_emit_message' AND pronamespace = 'pg_catalog'::regnamespace
      """)
    add(
      subject,
      isPublic == "t"
        ? "every role may send logical messages of up to 1 GB; docs/explanation/postgres-capture.md says how to bar them"
        : "only roles with a grant may send logical messages")
  }

  /// Adds to the review whether another machine can read the traffic to the server, or pretend to be the server.
  private func reviewTransport(_ uri: String, _ subject: String) {
    let mode = PostgresConnection.sslMode(of: uri)
    let hosts = PostgresConnection.remoteHosts(of: uri).joined(separator: ", ")
    let isWeak = PostgresConnection.trustNotice(uri) != nil
    add(
      subject,
      "sslmode \(mode), server \(hosts.isEmpty ? "on this machine" : hosts)",
      weak: isWeak ? "add sslmode=verify-full to the url, with sslrootcert" : nil)
  }

  // MARK: The network

  private func reviewReceive() {
    guard let receive = configuration.receive else { return add("receive", "nothing listens for other nodes") }
    do {
      let tls = try NetworkTLS.server(receive, state: configuration.node.state)
      let way =
        tls == nil ? "plain HTTP: any machine that reaches it can claim any name" : "TLS 1.3 with client certificates"
      add(
        "receive", "listens on \(receive.address), \(way)",
        weak: tls == nil ? "run 'cairn peer invite NAME', which makes certificates" : nil)
      if let tls {
        reviewCertificate(tls.certificate, "receive")
        reviewAuthorities(tls.authorities, isOwn: receive.tls == nil)
        reviewRevoked()
      }
    } catch {
      let error = Cairn.envelope(error)
      add("receive", error.message, weak: error.hint)
    }
  }

  private func reviewCertificate(_ file: String, _ subject: String) {
    guard let text = try? File.text(file), let certificate = try? Certificate(pem: text) else {
      return add(subject, "\(file) holds no certificate", weak: "name a certificate in PEM with tls")
    }
    let fact = "certificate \(file) of '\(certificate.commonName)' ends on \(Self.day(certificate.notAfter))"
    let hint = "renew it: 'cairn peer join' with a new invitation, or at the authority that issued it"
    add(subject, fact, weak: Self.daysLeft(certificate.notAfter) < 14 ? hint : nil)
  }

  private static func day(_ time: Int64) -> Substring { UTCTime(time).description.prefix(10) }

  private static func daysLeft(_ time: Int64) -> Int64 { (time - Clock.system.microseconds()) / PeerFolder.day }

  /// Adds to the review the certificate authorities that sign the certificates of peers. Every peer needs a new
  /// certificate before its authority expires.
  /// - Parameter isOwn: Whether `cairn peer` made the authorities. The first one signs new certificates; all others are
  ///   older.
  private func reviewAuthorities(_ file: String, isOwn: Bool) {
    guard let text = try? File.text(file), let all = try? Certificate.all(pem: text), !all.isEmpty else {
      return add("receive", "\(file) holds no authority", weak: "name the authorities in PEM with tls")
    }
    for authority in isOwn ? Array(all.prefix(1)) : all {
      let ends = Self.day(authority.notAfter)
      let hint = isOwn ? "run: cairn peer rotate --ca" : "add the certificate of a new authority to \(file)"
      add(
        "receive", "authority \(authority.fingerprint.prefix(16)) in \(file) ends on \(ends)",
        weak: Self.daysLeft(authority.notAfter) < 90 ? hint : nil)
    }
    guard isOwn, all.count > 1 else { return }
    let peers = PeerFolder(state: configuration.node.state)
    let waiting = (try? peers.peersOfOldAuthorities(now: Clock.system.microseconds())) ?? []
    add(
      "receive",
      "\((all.count - 1).counted("old authority", "old authorities")) may still sign certificates of any peer"
        + (waiting.isEmpty ? "" : "; these peers have no new one: \(waiting.joined(separator: ", "))"),
      weak: waiting.isEmpty
        ? "run: cairn peer rotate --drop"
        : "wait until these peers have connected; or run 'cairn peer rotate --drop', and let them join again")
  }

  private func reviewRevoked() {
    let problem = PeerFolder(state: configuration.node.state).revoked.problem
    let fact = problem.map { "no certificate is accepted, as the list of revoked ones is unknown: \($0.reason)" }
    add(
      "receive", fact ?? "the list of revoked certificates is readable",
      weak: problem == nil ? nil : "restore \(configuration.node.state)/peers/revoked from a backup")
  }

  private func review(_ peer: Configuration.Peer) {
    let (push, pull) = (peer.push.patterns, peer.pull.patterns)
    let subject = "peer \(peer.name)"
    add(subject, "may pull \(pull.isEmpty ? "nothing" : pull.joined(separator: ", "))")
    let foreign = push.filter { !$0.hasPrefix("!") && !$0.hasPrefix(peer.name + ".") }
    let fact = "may push \(push.isEmpty ? "nothing" : push.joined(separator: ", "))"
    let anyNode = foreign.contains { $0.hasPrefix("*") || $0.hasPrefix("?") }
    let hint = "write push = [\"\(peer.name).*\"]: the peer can now write trails of any node"
    add(subject, fact, weak: anyNode ? hint : nil)
    guard !push.isEmpty else { return }
    let room = configuration.diskBytes(of: peer)
    add(
      subject, room.map { "may push \(Size.text(bytes: $0))" } ?? "may fill the disk",
      weak: room == nil ? "write disk = \"1 GiB\" in [peer.\(peer.name)], or disk in [limits]" : nil)
  }

  private func review(_ pump: Configuration.Pump) {
    let subject = "pump \(pump.name)"
    let isPlain = !pump.url.isTLS
    let way = "\(pump.way.rawValue) \(pump.url)\(isPlain ? ", plain HTTP" : "")"
    add(
      subject, "\(way), peer known by \(pump.peer.map { "the name \($0)" } ?? "its host name")",
      weak: isPlain && !pump.url.isLoopback ? "write https:// in [pump.\(pump.name)], and join the node" : nil)
    let tls = try? NetworkTLS.client(pump, own: configuration.receive?.tls, state: configuration.node.state)
    if let certificate = tls?.certificate { reviewCertificate(certificate, subject) }
  }

  // MARK: Applies

  private func review(_ apply: Configuration.Apply) {
    let subject = "apply \(apply.name)"
    let isOwn = apply.trail.hasPrefix(configuration.node.name + ".")
    let list = apply.tables.joined(separator: ", ")
    let reachesAll = apply.tables.contains { $0 == "*" || $0 == "*.*" }
    add(
      subject, "trail \(apply.trail) of \(isOwn ? "this node" : "another node") may write tables \(list)",
      weak: isOwn || !reachesAll ? nil : "name the tables in [apply.\(apply.name)]: tables = [\"sale\", \"item\"]")
    if !apply.fireTriggers.isEmpty {
      add(subject, "triggers of other roles that fire: \(apply.fireTriggers.joined(separator: ", "))")
    }
    if !isOwn {
      let policy = apply.ddl.map { "ddl = \"\($0.rawValue)\"" }
      add(
        subject,
        "schema changes of another node: "
          + (policy ?? "followed for tables that Cairn made; if you do not trust that node, write ddl = \"stop\""),
        weak: apply.ddl == .follow ? "write ddl = \"stop\" in [apply.\(apply.name)]; docs/security.md says why" : nil)
    }
    if !isOwn, apply.replay != .rows {
      add(
        subject, "executes statements of another node (replay = \"\(apply.replay.rawValue)\")",
        weak: "write replay = \"rows\"")
    }
  }

  // MARK: The machine

  private func reviewControl() {
    let group = configuration.control.group.map { "group \($0)" } ?? "the group of the daemon"
    add("control", "\(group) may steer the daemon and read all rows")
  }

  private func reviewMetrics() {
    guard let metrics = configuration.metrics else { return add("metrics", "nothing listens") }
    let login = [metrics.token.map { _ in "a token" }, metrics.tls.map { _ in "TLS and client certificates" }]
      .compactMap(\.self).joined(separator: ", ")
    let isOpen = login.isEmpty && !metrics.isLoopback
    let hint =
      "write listen = \"127.0.0.1:\(metrics.port)\" in [metrics]; or set tls, and put a token into credentials/metrics.token"
    add(
      "metrics", "listens on \(metrics.address) \(login.isEmpty ? "without authentication" : "with \(login)")",
      weak: isOpen
        ? hint : metrics.tls == nil && !metrics.isLoopback ? "set tls in [metrics]: plain HTTP shows the token" : nil)
  }

  private func reviewLimits() {
    let disk = configuration.limits.diskBytes
    let room = disk.map { "trails may use \(Size.text(bytes: $0))" }
    add(
      "limits", room ?? "trails may use the whole disk",
      weak: disk == nil ? "write disk = \"20 GiB\" in [limits]" : nil)
    let unit = ServiceUnit(root: getenv("CAIRN_TEST_UNIT_ROOT").map { String(cString: $0) } ?? "")
    guard let unit else { return add("limits", "there is no unit cairnd.service, so systemd limits no memory") }
    for (setting, advice) in [("MemoryMax", "1G"), ("TasksMax", "4096")] {
      let value = unit.value(of: setting)
      add(
        "limits", "the unit cairnd.service has " + (value.map { "\(setting)=\($0)" } ?? "no \(setting)"),
        // Without a number of tasks, systemd has one of its own.
        weak: value?.asciiLowercased == "infinity" || (value == nil && setting == "MemoryMax")
          ? "run 'systemctl edit cairnd' and write \(setting)=\(advice) below [Service]" : nil)
    }
  }
}
