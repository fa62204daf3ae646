import CCurl
import Changes
import Glibc

/// The reason why a request failed, as libcurl reports it and as an error of Cairn, in one line.
struct TransferFailure {
  let code: CURLcode
  let text: String
  let base: HTTPBase
  /// The name that the certificate must be for.
  let name: String
  let wasConnected: Bool
  let options: HTTPClient.Options
  let systemCode: Int32

  /// Whether a look at the server's certificate finds a better reason.
  var isAboutTrust: Bool { code == CURLE_PEER_FAILED_VERIFICATION }

  var error: CairnError { error(shown: nil) }

  /// Returns the error; `shown` is the certificate that the server shows, if it is known.
  func error(shown: Certificate?) -> CairnError {
    switch code {
    case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY:
      unreachable("the name '\(base.host)' cannot be resolved", "check the name, and the resolver of this machine")
    case CURLE_COULDNT_CONNECT:
      unreachable(
        systemCode == 0 ? "it cannot be connected" : String(cString: strerror(systemCode)).lowercasedFirst,
        "see whether the peer listens there ('[receive] listen'), and what stands between")
    case CURLE_OPERATION_TIMEDOUT where wasConnected:
      unreachable(
        "it was silent for \(options.silenceSeconds) s", "see whether the peer runs, and whether the link is up")
    case CURLE_OPERATION_TIMEDOUT:
      unreachable(
        "no connection within \(options.connectSeconds) s",
        "see whether the link is up, and whether a firewall swallows packets")
    case CURLE_PEER_FAILED_VERIFICATION: untrusted(shown)
    case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
      distrust(
        "its public key is not the one that was told in advance",
        "somebody may stand in between; ask for a new invitation ('cairn peer invite')")
    case CURLE_SSL_CERTPROBLEM:
      CairnError(
        .confValue, "certificate and key for the connection to \(base.address) cannot be used: \(text)",
        hint: "see that both files are PEM and belong together, or join again ('cairn peer join')", remedy: .retry)
    case CURLE_SSL_CACERT_BADFILE:
      CairnError(
        .confValue, "the authorities for the connection to \(base.address) cannot be used: \(text)",
        hint: "see that the file holds certificates in PEM", remedy: .retry)
    case _ where text.contains("fatal alert"):
      distrust(
        "it ended the handshake: \(text)", "see in its log what it holds against our certificate; both speak TLS 1.3")
    case CURLE_SSL_CONNECT_ERROR:
      unreachable("TLS cannot be begun: \(text)", "see that https is spoken there, with TLS 1.3")
    case CURLE_GOT_NOTHING, CURLE_RECV_ERROR, CURLE_SEND_ERROR, CURLE_PARTIAL_FILE:
      unreachable("the connection broke", "it is tried again; see whether the peer was restarted, or the link is bad")
    case CURLE_WRITE_ERROR: unreachable("its answer is too large", "see what listens there: it is no cairnd")
    case CURLE_UNSUPPORTED_PROTOCOL, CURLE_WEIRD_SERVER_REPLY:
      unreachable("it does not speak HTTP/1.1", "see what listens there: it is no cairnd")
    default: unreachable(text.isEmpty ? String(cString: curl_easy_strerror(code)) : text, "it is tried again")
    }
  }

  private func untrusted(_ shown: Certificate?) -> CairnError {
    guard let shown else {
      return distrust(
        "its certificate does not count here: \(text)", "see [pump] tls.peers, and the peer's certificate")
    }
    let now = Int64(time(nil)) * 1_000_000
    let subject = "its certificate \(shown.fingerprint.prefix(16))… of '\(shown.commonName)'"
    if shown.notAfter < now {
      return distrust("\(subject) has expired", "the peer needs a new certificate; see that both clocks are right")
    }
    if shown.notBefore > now { return distrust("\(subject) is not valid yet", "see that both clocks are right") }
    if !shown.isFor(name), text.contains("subject name") || text.contains("does not match") {
      return distrust(
        "\(subject) is not for '\(name)'", "name what it is for in [pump] peer, if this is the right peer")
    }
    return distrust(
      "\(subject) comes from another authority", "see that [pump] tls.peers holds the authority of the peer")
  }

  private func unreachable(_ why: String, _ hint: String) -> CairnError {
    CairnError(.peerUnreachable, "cannot reach \(base.address): \(why)", hint: hint, remedy: .retry)
  }

  private func distrust(_ why: String, _ hint: String) -> CairnError {
    CairnError(.peerUntrusted, "cannot trust \(base.address): \(why)", hint: hint, remedy: .retry)
  }
}

extension String {
  fileprivate var lowercasedFirst: String { prefix(1).lowercased() + dropFirst() }
}
