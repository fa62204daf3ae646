/// The hints for a trail that does not fit its source or target, for example after a restore of a database.
///
/// In two-way replication, `copyBack` is the command that copies the rows of the other end into the source of the
/// trail, as `Configuration.copyBack` returns it. If it is nil, the trail is replicated one way.
package enum TrailHint {
  /// Returns the hint for a source or a state folder that was replaced, or restored from an older backup.
  package static func wentBack(_ folder: String, copyBack: String?) -> String {
    "if the url of the source or the state folder was changed, put it back; if the source was restored or replaced for good, or the state folder is lost: \(newTrail(folder, copyBack: copyBack))"
  }

  /// Returns the hint for a source that a capture of another state folder already reads.
  package static func captured(_ capture: String, _ folder: String, copyBack: String?) -> String {
    "if that capture is still used, remove [capture.\(capture)] from the conf; if it is not: \(newTrail(folder, copyBack: copyBack))"
  }

  /// Returns the steps by which an operator replaces a trail with a new one (`docs/guides/troubleshoot.md`, failure 9).
  package static func newTrail(_ folder: String, copyBack: String?) -> String {
    let steps = "stop the daemon, run 'cairn detach' on the source, remove \(folder), start the daemon again"
    let copy = "run 'cairn copy APPLY' for each apply of this trail"
    guard let copyBack else { return "\(steps), and \(copy): the copy removes rows that only the target has" }
    return
      "\(steps); both ends take writes, so look with 'cairn compare' which end has newer rows: if it is the other end, as after a restore of the source, run \(copyBack) first, which replaces the source's rows; when that copy has arrived, \(copy), which replaces the target's rows"
  }

  /// Returns the hint for an apply whose target continues at a place that the trail does not have.
  package static func foreign(_ apply: String, copyBack: String?) -> String {
    let start = "put back the state folder that was used last, if no daemon ran without it; else"
    guard let copyBack else {
      return
        "\(start) run 'cairn copy \(apply)', which copies everything again and removes rows that only the target has"
    }
    return
      "\(start) look with 'cairn compare \(apply)' which end has newer rows: if it is the target, run \(copyBack) first, which replaces the source's rows; when that copy has arrived, or if the source has the newer rows, run 'cairn copy \(apply)', which replaces the target's rows"
  }
}
