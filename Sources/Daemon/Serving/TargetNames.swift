import Changes
import Mapping
import Reshaping
import SystemKit

/// The names that the tables of a trail had at the target in the apply's last run.
///
/// They are kept in a file, because the changes that a suspended table missed are found in the trail under these names.
struct TargetNames {
  private let path: String

  init(state: String, apply: String) { path = "\(state)/applies/\(apply).names" }

  /// Returns the names as text; equal texts give equal names.
  static func text(_ rules: [TableRule], _ policy: NamePolicy) -> String {
    ([policy.rawValue] + rules.map { "\($0.from) \($0.to ?? "")" }).joined(separator: "\n")
  }

  /// Returns the noted text; nil: there is none.
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
