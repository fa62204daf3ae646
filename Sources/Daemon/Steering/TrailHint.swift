/// The hints for a trail that does not fit its source, for example after a restore of the source.
package enum TrailHint {
  /// Returns the hint for a source or a state folder that was replaced, or restored from an older backup.
  package static func wentBack(_ folder: String) -> String {
    "if the url of the source or the state folder was changed, put it back; if the source was restored or replaced for good, or the state folder is lost: \(newTrail(folder))"
  }

  /// Returns the hint for a source that a capture of another state folder already reads.
  package static func captured(_ capture: String, _ folder: String) -> String {
    "if that capture is still used, remove [capture.\(capture)] from the conf; if it is not: \(newTrail(folder))"
  }

  /// Returns the steps by which an operator replaces a trail with a new one (`docs/guides/troubleshoot.md`, failure 9).
  package static func newTrail(_ folder: String) -> String {
    "stop the daemon, run 'cairn detach' on the source, remove \(folder), start the daemon again, and run 'cairn copy APPLY' for each apply of this trail; if the target takes writes too and has newer rows, first write existing = \"keep\" in its apply"
  }
}
