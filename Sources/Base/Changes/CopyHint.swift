/// The part of a hint to the operator that says how to refresh tables.
package enum CopyHint {
  /// The words in a hint that fit both users of the daemon and users of `cairn replicate`.
  package static let either = "with the daemon 'cairn copy APPLY', else run again with --existing overwrite"

  /// Returns a hint in which only the daemon's command is left of the two ways to refresh tables. Users of the daemon
  /// have no option `--existing`.
  ///
  ///     CopyHint.ofDaemon("copy again: \(CopyHint.either)", apply: "erp")  // "copy again: run 'cairn copy erp'"
  ///
  /// - Parameter apply: The name of the apply in the command. If nil, the command has the word APPLY instead.
  package static func ofDaemon(_ hint: String, apply: String?) -> String {
    let command = apply.map { "run 'cairn copy \($0)'" } ?? "run 'cairn copy APPLY' with an apply of this trail"
    let parts = hint.split(separator: either, omittingEmptySubsequences: false)
    return parts.joined(separator: command)
  }
}
