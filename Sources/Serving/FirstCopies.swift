import Changes
import SystemKit

/// That an apply of a received trail has not had its first copies yet: until then a table that holds rows stops it, as
/// nobody could look at source and target together. A file, so that no restart forgets it.
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
