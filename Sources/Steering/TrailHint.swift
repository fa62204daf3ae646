/// What mends a trail that does not go on from where its source is, under a daemon.
package enum TrailHint {
  /// The source went back, or another one is in its place, or the state folder is an older one.
  package static func wentBack(_ folder: String) -> String {
    "put back the url of the source, or the state folder that was used last, if that was changed; if it is gone, or the source was restored or replaced for good: \(anew(folder))"
  }

  /// Somebody else captured the source.
  package static func captured(_ capture: String, _ folder: String) -> String {
    "if that one goes on, take [capture.\(capture)] out of the conf; if it is over: \(anew(folder))"
  }

  /// Step by step; `docs/operations.md`, failure 9.
  package static func anew(_ folder: String) -> String {
    "stop the daemon, run 'cairn detach' on the source, remove \(folder), start the daemon again, and run 'cairn copy APPLY' for each apply of this trail; where the target is written too and holds newer rows, write existing = \"keep\" into its apply before"
  }
}
