import Changes
import SystemKit

/// The note that an apply of a received trail has not had its first copies yet.
///
/// Until then, a table that holds rows stops the apply, because no check can see source and target together. It is a
/// file, so that a restart keeps it.
struct FirstCopies {
  private let path: String

  init(state: String, apply: String) { path = "\(state)/applies/\(apply).first" }

  var areUnderWay: Bool { Folder.exists(path) }

  func begin() throws {
    guard !areUnderWay else { return }
    do throws(FileError) {
      try Folder.create(Folder.parent(of: path))
      try File.replace(path, text: "", permissions: 0o644)
    } catch { throw error.asCairnError(doing: "note that first copies begin") }
  }

  func end() {
    guard areUnderWay else { return }
    try? Folder.remove(path)
  }
}
