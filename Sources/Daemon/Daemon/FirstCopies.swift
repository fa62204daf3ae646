import Changes
import SystemKit

/// A file that exists during the initial load of an apply whose trail comes from another node. Meanwhile, the apply
/// stops before it would write to a table that already has rows.
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
