import CCurl
import Changes
import Glibc

/// A failed HTTP request: the message of libcurl, from which an error of Cairn is made.
struct TransferFailure {
  let code: CURLcode
  let text: String
  let base: HTTPBase
  /// The host name or address that the server's certificate must have.
  let name: String
  let wasConnected: Bool
  let options: HTTPClient.Options
  let systemCode: Int32

  /// Whether the server's certificate was not accepted.
  var isAboutTrust: Bool { code == CURLE_PEER_FAILED_VERIFICATION }

  var error: CairnError { error(shown: nil) }

  /// Returns the error for the operator.
  ///
  /// - Parameter shown: The certificate that the server presented; nil if it is not known.
  func error(shown: Certificate?) -> CairnError {
    switch code {
    case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY:
      unreachable("the name '\(base.host)' cannot be resolved", "check the name, and the resolver of this machine")
    case CURLE_COULDNT_CONNECT:
      unreachable(
        systemCode == 0 ? "the connection failed" : String(cString: strerror(systemCode)).lowercasedFirst,
        "check that the peer listens there ('[receive] listen'), and that no firewall is in between")
    case CURLE_OPERATION_TIMEDOUT where wasConnected:
      unreachable(
        "it sent nothing for \(options.silenceSeconds) s", "check that the peer runs, and that the link is up")
    case CURLE_OPERATION_TIMEDOUT:
      unreachable(
        "no connection within \(options.connectSeconds) s",
        "check that the link is up, and that no firewall drops packets")
    case CURLE_PEER_FAILED_VERIFICATION: untrusted(shown)
    case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
      distrust(
        "its public key is not the one in the invitation",
        "another machine may intercept the connection; ask for a new invitation ('cairn peer invite')")
    case CURLE_SSL_CERTPROBLEM:
      CairnError(
        .confValue, "certificate and key for the connection to \(base.address) cannot be used: \(text)",
        hint: "check that both files are PEM and belong together, or join again ('cairn peer join')", remedy: .retry)
    case CURLE_SSL_CACERT_BADFILE:
      CairnError(
        .confValue, "the authorities for the connection to \(base.address) cannot be used: \(text)",
        hint: "check that the file contains certificates in PEM", remedy: .retry)
    case _ where text.contains("fatal alert"):
      distrust(
        "it ended the TLS handshake: \(text)",
        "see in the log of the peer why it refuses the certificate of this node; both must speak TLS 1.3")
    case CURLE_SSL_CONNECT_ERROR:
      unreachable("TLS cannot start: \(text)", "check that the peer serves https with TLS 1.3")
    case CURLE_GOT_NOTHING, CURLE_RECV_ERROR, CURLE_SEND_ERROR, CURLE_PARTIAL_FILE:
      unreachable("the connection broke", "Cairn tries again; check whether the peer was restarted, or the link is bad")
    case CURLE_WRITE_ERROR: unreachable("its answer is too large", "check what listens there: it is not a cairnd")
    case CURLE_UNSUPPORTED_PROTOCOL, CURLE_WEIRD_SERVER_REPLY:
      unreachable("it does not speak HTTP/1.1", "check what listens there: it is not a cairnd")
    default: unreachable(text.isEmpty ? String(cString: curl_easy_strerror(code)) : text, "Cairn tries again")
    }
  }

  private func untrusted(_ shown: Certificate?) -> CairnError {
    guard let shown else {
      return distrust(
        "its certificate is not trusted here: \(text)",
        "check tls.peers in [pump.NAME], and the certificate of the peer")
    }
    let now = Int64(time(nil)) * 1_000_000
    let subject = "its certificate \(shown.fingerprint.prefix(16))… of '\(shown.commonName)'"
    if shown.notAfter < now {
      return distrust("\(subject) has expired", "the peer needs a new certificate; check that both clocks are right")
    }
    if shown.notBefore > now { return distrust("\(subject) is not valid yet", "check that both clocks are right") }
    if !shown.isFor(name), text.contains("subject name") || text.contains("does not match") {
      return distrust(
        "\(subject) is not for '\(name)'", "write that name as 'peer' in [pump.NAME] if this is the right peer")
    }
    return distrust(
      "\(subject) comes from another authority", "check that tls.peers in [pump.NAME] has the authority of the peer")
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
