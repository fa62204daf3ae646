import Changes
import Mapping
import Reshaping
import SystemKit

/// A file with the names that the tables of a trail had at the target in the last run of the apply.
///
/// Apply needs these names to find, in the trail, the changes that a suspended table missed.
struct TargetNames {
  private let path: String

  init(state: String, apply: String) { path = "\(state)/applies/\(apply).names" }

  /// Returns the settings that decide the names of tables at the target, as one text. If two texts are equal, all
  /// tables have the same names under both.
  static func text(_ rules: [TableRule], _ policy: NamePolicy) -> String {
    ([policy.rawValue] + rules.map { "\($0.from) \($0.to ?? "")" }).joined(separator: "\n")
  }

  /// Returns the text in the file; nil if the file does not exist.
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
