import Changes
import Conflicts

extension Configuration.Apply {
  package var conflictPlan: ConflictPlan { ConflictPlan(conflicts, tables: tableConflicts) }

  package var localWritesPlan: LocalWritesPlan { LocalWritesPlan(localWrites, tables: tableLocalWrites) }
}

extension ConflictPlan.Part {
  /// Creates the conflict settings of a section. Missing settings, except those of columns, come from `usual`.
  init(_ section: ReadSection, else usual: Self = Self()) {
    self.init(
      rule: section.text("conflict").flatMap { try? ConflictRules.Rule($0) } ?? usual.rule,
      columns: Dictionary(section.rules("conflicts").map { ($0.column.nameKey, $0.rule) }) { first, _ in first },
      tracking: section.text("tracking").flatMap { ConflictRules.Tracking(rawValue: $0) } ?? usual.tracking,
      deletes: section.text("deletes").flatMap { ConflictRules.DeleteRule(rawValue: $0) } ?? usual.deletes,
      decider: section.text("decides") ?? usual.decider)
  }
}
