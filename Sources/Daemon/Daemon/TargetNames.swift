import Changes
import Mapping
import SystemKit
import Transforming

/// The file with the settings that determined the names of tables at the target in the last run of an apply.
struct TargetNames {
  private let path: String

  init(state: String, apply: String) { path = "\(state)/applies/\(apply).names" }

  /// Returns the settings that determine the names of tables at the target, as one text. Equal texts mean equal names.
  static func text(_ rules: [TableRule], _ policy: NamePolicy) -> String {
    ([policy.rawValue] + rules.map { "\($0.from) \($0.to ?? "")" }).joined(separator: "\n")
  }

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
