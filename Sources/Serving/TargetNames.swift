import Changes
import Mapping
import Reshaping
import SystemKit

/// Which names the tables of a trail had at the target when an apply ran last. A file, so that it is known while tables
/// wait: what they missed stands in the trail, and is found there under the names that they had then.
struct TargetNames {
  private let path: String

  init(state: String, apply: String) { path = "\(state)/applies/\(apply).names" }

  /// Equal texts give equal names.
  static func text(_ rules: [ReshapeRule], _ policy: NamePolicy) -> String {
    ([policy.rawValue] + rules.map { "\($0.from) \($0.to ?? "")" }).joined(separator: "\n")
  }

  /// Nil: it is not known.
  func read() throws -> String? {
    guard Folder.exists(path) else { return nil }
    do throws(FileError) { return try File.text(path) } catch {
      throw error.asCairnError(doing: "read the names of an apply's tables")
    }
  }

  func note(_ text: String) throws {
    guard try read() != text else { return }
    do throws(FileError) {
      try Folder.create(Folder.parent(of: path))
      try File.replace(path, text: text, permissions: 0o644)
    } catch { throw error.asCairnError(doing: "note the names of an apply's tables") }
  }
}
