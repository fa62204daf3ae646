/// The part of a hint that says how an operator copies tables again.
package enum CopyHint {
  /// The words for users of the daemon and of `cairn replicate`.
  package static let either = "with the daemon 'cairn copy APPLY', else run again with --existing overwrite"

  /// Returns a hint for users of the daemon, who have no option `--existing`.
  ///
  ///     CopyHint.ofDaemon("copy again: \(CopyHint.either)", apply: "erp")  // "copy again: run 'cairn copy erp'"
  ///
  /// - Parameter apply: The name of the apply to copy; nil: any apply of the trail.
  package static func ofDaemon(_ hint: String, apply: String?) -> String {
    let command = apply.map { "run 'cairn copy \($0)'" } ?? "run 'cairn copy APPLY' with an apply of this trail"
    let parts = hint.split(separator: either, omittingEmptySubsequences: false)
    return parts.joined(separator: command)
  }
}
