import Changes

// MARK: - Trails on other machines

extension ErrorCode {
  var pumpExplanation: Explanation {
    switch self {
    case .peerUnreachable:
      Explanation(
        "a peer cannot be reached over the network",
        why: """
          The name of its host cannot be resolved, no program listens at the address, the connection broke, or \
          nothing came for too long. The trail keeps its content until the peer has it; the pump tries again by \
          itself, at longer and longer intervals.
          """,
        what: [
          "Read the message: it names the step that failed.",
          "Check that `cairnd` runs at the peer, and its `[receive] listen`.",
          "Try to connect from here: `curl -v https://HOST:PORT/cairn`. If this times out, check the firewalls.",
        ])
    case .peerUntrusted:
      Explanation(
        "the certificate of a peer is not trusted",
        why: """
          The peer answers, but its certificate is not trusted. It has expired, is not valid yet, is for another \
          name, or comes from an authority that is not in `tls.peers` of `[pump.NAME]`. Or the peer refuses this node's \
          certificate in the handshake. Nothing was sent. Cairn tries again from time to time.
          """,
        what: [
          "Read the message: it names the certificate and what is wrong with it.",
          "Check both clocks: a certificate is valid only for a period.",
          "For another name, write the name in the certificate as `peer` in `[pump.NAME]`, if this is the right peer.",
          "Else let this node join again: `cairn peer invite` at the peer, `cairn peer join` here.",
        ])
    case .peerUnknown:
      Explanation(
        "a peer did not show a certificate that is accepted here",
        why: """
          The listener wants a certificate that an authority of `[receive] tls.peers` has signed, and that is valid \
          now. The peer sent none, one of another authority, or one that has expired.
          """,
        what: [
          "Read the message of the listener: it says what is wrong with the certificate.",
          "Let the node join again: `cairn peer invite` there, `cairn peer join` here.",
        ])
    case .peerRefused:
      Explanation(
        "a peer has no grant for its request",
        why: """
          No `[peer.NAME]` of the listener grants this trail to this peer in this direction, or the peer's \
          certificate was revoked.
          """,
        what: [
          "At the listener, grant it: `may = { push = [\"store-042.*\"], pull = [\"hq.erp\"] }`, and reload.",
          "Or exclude the trail in the pump. After the grant, the pump continues by itself.",
        ])
    case .trailElsewhere:
      Explanation(
        "a copy of a trail does not end where bytes should be added",
        why: """
          Another pump has added to the copy meanwhile, or an answer was lost and the bytes are there already. The \
          sender asks for the end of the copy and continues from there. Or the copy ends after the trail at the other \
          side. That node was restored and does not have everything again, or the capture there has not opened the \
          trail yet.
          """,
        what: [
          "Do nothing: the pump recovers by itself. If it happens again and again, two pumps push the same trail.",
          """
          If it does not end, run `cairn status` at the side that has less. Its capture has to run, or the pump that \
          brings the trail there.
          """,
        ])
    case .trailForked:
      Explanation(
        "two different histories exist under one trail's name",
        why: """
          The trail and its copy differ before the place where both should be equal. The origin was restored from an \
          older backup, its state folder was created again, or two nodes have the same name. Cairn changes neither of \
          the two. A two-way apply reports the same if a transaction of a peer depends on one that this node's trail \
          does not have. The state folder of this node is older than what the peer has seen, or the peer lies.
          """,
        what: [
          "Find out which history to keep: `cairn trail list` at both ends prints ids and ends.",
          "If it is the origin's: at each node with a copy, stop the daemon, remove the trail's folder, and start it. Run `cairn start` for the pump that rests. When the trail has come, run `cairn copy APPLY`.",
          "If two nodes share a name, give one of them another.",
          "If the state folder of this node was restored: run `cairn detach` on its database, remove the folder, and start again.",
        ])
    case .trailOwn:
      Explanation(
        "a trail is sent to the node that writes it",
        why: """
          A trail is written by its origin alone. In a ring of nodes a trail would return to its origin, which does not \
          need it.
          """,
        what: ["Do nothing: the pump leaves this trail out. A pattern such as `\"!hq.*\"` excludes it."])
    case .trailPurged:
      Explanation(
        "the next part of a copy has been deleted at the other side",
        why: """
          The copy was away for longer than `[limits] retain`, or the disk budget did not allow to wait for it. The \
          copy starts again at the oldest segment; the changes in between reach it as a refresh.
          """,
        what: [
          "Do nothing: the pump starts the copy again by itself, and its applies ask for their rows again.",
          "Raise `[limits] retain` or `disk` at the other side if it happens again.",
        ])
    default:
      Explanation(
        "the other side cannot serve this now",
        why:
          "It has as many connections as it allows, or this node asks it for too many copies at once, or it is shutting down. The waiting data is sent when there is room.",
        what: ["Do nothing: Cairn tries again. Raise `[receive] connections` if it does not end."])
    }
  }
}
