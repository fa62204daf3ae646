/// Checks the token of `[metrics]` against the conf.
///
///     MetricsToken.problem(ConfCredential(path: "credentials/metrics.token", secret: "short"))?.code   // .confValue
enum MetricsToken {
  static let bytes = 16...1024

  /// Returns a problem if the token is too short, or has characters that a header cannot carry; otherwise nil.
  static func problem(_ token: ConfCredential) -> ConfProblem? {
    let isShown = token.secret.utf8.allSatisfy { (0x21..<0x7f).contains($0) }
    guard !bytes.contains(token.secret.utf8.count) || !isShown else { return nil }
    return ConfProblem(
      .confValue, at: ConfPlace(file: token.path),
      "the token of [metrics] must have \(bytes.lowerBound) to \(bytes.upperBound) ASCII characters, without blanks",
      hint: "run: openssl rand -hex 32 > \(token.path)")
  }

  /// Returns warnings about a token that has no effect, or that other machines can read on its way.
  static func notices(_ token: ConfCredential?, _ listener: ReadSection?, isWhole: Bool) -> [String] {
    guard let token, isWhole else { return [] }
    guard let listener else { return ["\(token.path) is a token for [metrics], which the conf does not have"] }
    guard let address = listener.text("listen").flatMap({ ListenAddress($0) }), listener.values["tls"] == nil,
      !PeerURL.isLoopback(address.host)
    else { return [] }
    return [
      "\(listener.place("listen")): the token of [metrics] goes over plain HTTP, where machines on the way can read it: set tls"
    ]
  }
}
