/// The hints of a daemon for a trail that does not go on from where its source is.
package enum TrailHint {
  /// Returns the hint for a source that went back or was replaced, and for a state folder that is an older one.
  package static func wentBack(_ folder: String) -> String {
    "put back the url of the source, or the state folder that was used last, if that was changed; if it is gone, or the source was restored or replaced for good: \(anew(folder))"
  }

  /// Returns the hint for a source that is captured into the trail of another state folder.
  package static func captured(_ capture: String, _ folder: String) -> String {
    "if that one goes on, take [capture.\(capture)] out of the conf; if it is over: \(anew(folder))"
  }

  /// Returns the steps that begin a trail again; see `docs/operations.md`, failure 9.
  package static func anew(_ folder: String) -> String {
    "stop the daemon, run 'cairn detach' on the source, remove \(folder), start the daemon again, and run 'cairn copy APPLY' for each apply of this trail; where the target is written too and holds newer rows, write existing = \"keep\" into its apply before"
  }
}
