// MARK: - Trails on other machines

extension ErrorCode {
  var pumpExplanation: Explanation {
    switch self {
    case .peerUnreachable:
      Explanation(
        "a peer cannot be reached over the network",
        why: """
          The name of its host cannot be resolved, nobody listens at the address, the connection broke, or nothing came \
          for too long. What the trail holds stays there until the peer has it; the pump tries again by itself, at longer \
          and longer intervals.
          """,
        what: [
          "Read the message: it says how far it came.",
          "Look whether `cairnd` runs at the peer, and what `[receive] listen` says there.",
          "Try the way from here: `curl -v https://HOST:PORT/cairn`. Look for a firewall where this times out.",
        ])
    case .peerUntrusted:
      Explanation(
        "the certificate of a peer does not count",
        why: """
          The peer is reached, but its certificate has expired, is not valid yet, is for another name, or comes from an \
          authority that is not in `[pump] tls.peers`; or the peer refuses ours in the handshake. Nothing was sent. It is \
          tried again now and then.
          """,
        what: [
          "Read the message: it names the certificate and what is wrong with it.",
          "Look at both clocks: certificates are valid from a time to a time.",
          "For another name, write what the certificate is for into `[pump] peer`, if this is the right peer.",
          "Else let this node join again: `cairn peer invite` at the peer, `cairn peer join` here.",
        ])
    case .peerUnknown:
      Explanation(
        "a peer did not show a certificate that counts here",
        why: """
          The listener wants a certificate that an authority of `[receive] tls.peers` has signed, and that is valid now. \
          None came, or one of another authority, or one that has expired.
          """,
        what: [
          "Read the message of the listener: it says what is wrong with the certificate.",
          "Let the node join again: `cairn peer invite` there, `cairn peer join` here.",
        ])
    case .peerRefused:
      Explanation(
        "a peer may not do what it asked for",
        why: """
          No `[peer.NAME]` stanza of the listener grants this trail to this peer in this direction, or the peer's \
          certificate was revoked.
          """,
        what: [
          "At the listener, grant it: `may = { push = [\"store-042.*\"], pull = [\"hq.erp\"] }`, and reload.",
          "Or take the trail out of the pump. Once it is granted, the pump goes on by itself.",
        ])
    case .trailElsewhere:
      Explanation(
        "a copy of a trail does not stand where bytes were to be added",
        why: """
          Somebody else has added to the copy meanwhile, or an answer was lost and the bytes are there already. The \
          sender looks where the copy stands and goes on from there. Or the copy stands behind the end of the trail at \
          the other side: that node was restored and does not have all of it again, or the capture there has not opened \
          the trail yet.
          """,
        what: [
          "Nothing: it settles itself. If it comes all the time, two pumps push the same trail.",
          """
          If it stays so, look with `cairn status` at the side that is behind: its capture has to run, or the pump that \
          brings the trail there.
          """,
        ])
    case .trailForked:
      Explanation(
        "two different histories exist under one trail's name",
        why: """
          The trail and its copy differ before the place where both should be equal: the origin was restored from an \
          older backup, its state folder was made anew, or two nodes have the same name. Cairn \
          changes neither of the two. A two-way apply reports the same if a transaction of a peer follows one of this \
          node's trail that the trail does not have: the state folder of this node is older than what the peer has seen, \
          or the peer does not tell the truth.
          """,
        what: [
          "Find out which history is the true one: `cairn trail list` at both ends tells ids and ends.",
          "If it is the origin's: stop the pump, remove the folder of the copy, and let its applies copy all rows again.",
          "If two nodes share a name, give one of them another.",
          "If the state folder of this node was restored: run `cairn detach` on its database, remove the folder, and start again.",
        ])
    case .trailOwn:
      Explanation(
        "a trail is sent to the node where it began",
        why: """
          A trail is written by its origin alone. In a ring of nodes a trail comes round to its origin, which has no use \
          for it.
          """,
        what: ["Nothing: the pump leaves this trail out. Patterns such as `\"!hq.*\"` leave it out before."])
    case .trailPurged:
      Explanation(
        "what a copy needs next has been deleted at the other side",
        why: """
          The copy was away for longer than `[limits] retain`, or the disk budget did not allow to wait for it. The copy \
          begins again at the oldest segment that is there; what was in between reaches it as a refresh.
          """,
        what: [
          "Nothing, where the pump does it by itself: applies of the copy ask for their rows again.",
          "Raise `[limits] retain` or `disk` at the other side if it comes again.",
        ])
    default:
      Explanation(
        "the other side cannot serve this now",
        why:
          "It has as many connections as it allows, or this node asks it for too many copies at once, or it is ending. What waits is sent once there is room.",
        what: ["Nothing: it is tried again. Raise `[receive] connections` if it stays so."])
    }
  }
}
