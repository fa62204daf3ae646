import Changes
import Configuring
import Deploying
import Endpoints
import NetKit
import Pumping
import Replicating
import SystemKit
import Trails

/// `cairn snapshot fetch`, `pending` and `apply`: the snapshot of another node at a device.
struct SnapshotDevice {
  private let arguments: Arguments
  private let place: SnapshotPlace

  init(_ file: String, _ arguments: Arguments) {
    self.arguments = arguments
    place = SnapshotPlace(FileIdentity.canonicalFolder(of: file))
  }

  // MARK: Fetch

  func fetch(_ name: String, from peer: String) throws {
    guard name.utf8.count <= 63, !name.isEmpty,
      name.utf8.allSatisfy({ (0x61...0x7a).contains($0) || (0x30...0x39).contains($0) || $0 == 0x5f || $0 == 0x2d })
    else {
      throw arguments.usage("'\(name.oneLine)' is not the name of a snapshot", "write NAME of [snapshot.NAME] there;")
    }
    guard Folder.isFolder(Folder.parent(of: place.path)) else {
      throw CairnError(
        .databaseMissing, "the folder of \(place.path) does not exist", hint: "create the folder first",
        remedy: .badInput)
    }
    let client = try client(peer)
    let bar = TrailProgressBar(name)
    defer { bar.clear() }
    let outcome = try SnapshotDownload(name, to: place, over: client).run { bar.update($0, $1) }
    bar.clear()
    switch outcome {
    case .current(let sum): report("current", place.path, sum, "\(place.path) is the newest one")
    case .pending(let sum):
      report(
        "pending", place.pendingPath, sum,
        "fetched \(place.pendingPath); put it in place: cairn snapshot apply \(place.path.shellWord)")
    }
  }

  private func client(_ peer: String) throws -> HTTPClient {
    let configuration = try DaemonConf.load(arguments.value("--config"))
    let pump = try pump(peer, configuration)
    let tls = try NetworkTLS.client(pump, own: configuration.receive?.tls, state: configuration.node.state)
    return try HTTPClient(
      base: pump.url.description, tls: tls, options: .init(node: configuration.node.name), stop: StopSignal())
  }

  /// Returns the pump of the conf that leads to a peer, or one to a URL.
  private func pump(_ peer: String, _ configuration: Configuration) throws -> Configuration.Pump {
    if peer.has(":") {
      guard let url = PeerURL(peer) else {
        throw CairnError(
          .badURL, "'\(URLPassword.hidden(in: peer))' is not the address of a peer",
          hint: "write https://HOST:PORT, such as https://hq.example:7420", remedy: .badInput)
      }
      guard url.isTLS || url.isLoopback else {
        throw arguments.usage(
          "\(url) is plain HTTP to another machine", "write https://, or name a pump of the conf with insecure = true;")
      }
      // A pump to the same address knows the name in the certificate.
      let known = configuration.pumps.first { $0.url == url && arguments.value("--peer") == nil }
      var pump = known ?? Configuration.Pump(name: "snapshot", trails: TrailPatterns([]), way: .pull, url: url)
      arguments.value("--peer").map { pump.peer = $0 }
      return pump
    }
    let found = configuration.pumps.filter { $0.node.hasSameBytes(as: peer) || $0.name.hasSameBytes(as: peer) }
    guard let pump = found.first else {
      let names = configuration.pumps.map(\.node).joined(separator: ", ")
      throw arguments.usage(
        "no pump of the conf leads to '\(peer.oneLine)'",
        names.isEmpty ? "write the URL of its listener;" : "pumps lead to \(names); or write a URL;")
    }
    return pump
  }

  // MARK: Pending, apply

  func pending() throws {
    let swap = SnapshotSwap(place)
    guard let file = swap.file else {
      return report("none", place.path, nil, "none: there is no \(place.path), and nothing was fetched")
    }
    let note = try SnapshotSwap.note(of: file)
    let age = note.map { ", as of \(UTCTime($0.madeAt))" } ?? ""
    report(swap.state.rawValue, file, SnapshotPlace.sum(of: file), "\(swap.state.rawValue): \(file)\(age)", note)
  }

  func apply() throws {
    let bar = TrailProgressBar("verify")
    defer { bar.clear() }
    let note = try SnapshotSwap(place).apply(force: arguments.has("--force")) { bar.update($0, $1) }
    bar.clear()
    report(
      "applied", place.path, SnapshotPlace.sum(of: place.path),
      "\(place.path) is the snapshot as of \(UTCTime(note.madeAt))", note)
  }

  private func report(_ state: String, _ file: String, _ sum: String?, _ text: String, _ note: SnapshotNote? = nil) {
    guard arguments.has("--json") else { return Terminal.print(text) }
    Terminal.print(
      JSONObject([
        ("event", .text("snapshot")), ("state", .text(state)), ("file", .text(file)),
        ("sha256", sum.map { .text($0) } ?? .null),
        ("made_at", note.map { .text("\(UTCTime($0.madeAt))") } ?? .null),
        ("tables", .list(note?.tables.map { .text($0) } ?? [])),
        ("positions", .list(note?.positions.map { .object($0.json) } ?? [])),
      ]).line)
  }
}
