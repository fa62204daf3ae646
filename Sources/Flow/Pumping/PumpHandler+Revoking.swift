import Changes
import NetKit

// Requests that run for long: bodies that a peer pushes, segments that it fetches, and waits for what comes next.
extension PumpHandler {
  /// Returns whether the present grants allow a request that is in progress to continue.
  package func mayGoOn(_ request: HTTPRequest) -> Bool {
    let parts = request.path.split(separator: "/")
    if parts.count == 4, parts[0] == "cairn", parts[2] == "snapshots",
      let peer = request.isTLS ? request.peer?.commonName : request.header("Cairn-Node")
    {
      return mayFetch(peer, String(parts[3]))
    }
    guard parts.count >= 4, parts[0] == "cairn", parts[2] == "trails", let trail = TrailName(String(parts[3])),
      let peer = request.isTLS ? request.peer?.commonName : request.header("Cairn-Node")
    else { return true }
    let grants = options.grants()
    let (push, pull) = (grants.allow(peer, .push, trail), grants.allow(peer, .pull, trail))
    switch (request.method, parts.count) {
    case ("POST", 6): return push
    case ("POST", _), (_, 6): return pull
    default: return push || pull
    }
  }
}
