import Changes
import Configuring
import Deploying
import Endpoints
import SystemKit
import Trails
import Trust

/// `cairn peer remove`: revokes a peer, and takes it out of the conf as far as that needs no decision.
struct PeerRemoving {
  private let name: String
  private let conf: Configuration?
  private let peers: PeerFolder
  private let arguments: Arguments

  init(_ name: String, _ conf: Configuration?, _ peers: PeerFolder, _ arguments: Arguments) {
    (self.name, self.conf, self.peers, self.arguments) = (name, conf, peers, arguments)
  }

  /// Removes the peer, and prints what is left. Returns the exit status.
  ///
  /// - Throws: `usage` if nothing of this node names the peer.
  func run(state: String) throws -> Int32 {
    let loaded = ConfFolder.load(arguments.value("--config") ?? ConfFolder.usual)
    let trails = (try? Trail.names(state: state)) ?? []
    let removal = PeerRemoval(name, settings: loaded.settings, conf, trails: trails)
    let now = Clock.system.microseconds()
    let (certificates, invitations) = try IssuedCertificates(peers).revoke(name, now: now)
    guard !certificates.isEmpty || invitations > 0 || !removal.files.isEmpty || !removal.left.isEmpty else {
      throw CairnError(
        .usage, "this node does not know a peer '\(name)'", hint: "run 'cairn peer list' to see the peers",
        remedy: .badInput)
    }
    for file in removal.files {
      do throws(FileError) { try Account.asSelf { () throws(FileError) in try Folder.remove(file) } } catch {
        throw CairnError(
          .ioFailed, "cannot remove \(file): \(error)", hint: "run the command as root, or remove the file",
          remedy: .badInput)
      }
    }
    if arguments.has("--json") {
      Terminal.print(
        JSONObject([
          ("event", .text("removed")), ("peer", .text(name)), ("fingerprints", .list(certificates.map { .text($0) })),
          ("invitations", .integer(Int64(invitations))), ("files", .list(removal.files.map { .text($0) })),
          ("left", .list(removal.left.map { .text($0) })),
        ]).line)
      return 0
    }
    Terminal.print(
      "revoked \(certificates.count.counted("certificate")) and \(invitations.counted("invitation")) of \(name)")
    for file in removal.files { Terminal.print("removed \(file)") }
    for sentence in removal.left { Terminal.note("left: \(sentence)") }
    if !removal.files.isEmpty { Terminal.note("now run 'cairn reload'") }
    return 0
  }
}
