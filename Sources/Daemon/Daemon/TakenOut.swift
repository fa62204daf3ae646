import Changes
import Configuring
import Deploying
import Endpoints

/// Finds tables that a new conf removes from a capture, so that targets no longer follow them.
enum TakenOut {
  private static let namesMax = 10

  /// Returns a sentence for each capture that loses tables under the new conf.
  static func notices(from old: Configuration, to new: Configuration) -> [String] {
    new.captures.compactMap { capture in
      guard let before = old.captures.first(where: { $0.name == capture.name }), before.tables != capture.tables,
        let database = new.database(capture.database), database == old.database(before.database)
      else { return nil }
      do {
        let source = try SourceDatabase(database.location().canonical)
        let kept = Set(try source.tables(TablePatterns(capture.tables), passesLocked: true).map(\.name.nameKey))
        let gone = try source.tables(TablePatterns(before.tables), passesLocked: true).filter {
          ($0.refusal == nil || $0.isLocked) && !kept.contains($0.name)
        }
        guard !gone.isEmpty else { return nil }
        let names = gone.prefix(namesMax).map(\.name).joined(separator: ", ")
        let more = gone.count > namesMax ? " and \(gone.count - namesMax) more" : ""
        let fate =
          source.server == nil
          ? "their rows at targets stay"
          : "targets treat them as dropped at the source, so tables that Cairn created are dropped (see 'ddl')"
        return "capture.\(capture.name) no longer includes: \(names)\(more); \(fate)"
      } catch {
        let error = CairnError(enveloping: error, doing: "look at the tables of \(database.name)")
        return "capture.\(capture.name) now includes other tables, which cannot be listed: \(error.message)"
      }
    }
  }
}
