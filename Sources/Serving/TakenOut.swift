import Changes
import Configuring
import Operating

/// Tables that a new conf takes out of a capture that goes on: targets do not follow them any more. A capture from
/// PostgreSQL writes to its trail that they were dropped.
enum TakenOut {
  private static let namesMax = 10

  /// Returns a sentence for each capture from which tables are taken out.
  static func notices(from old: Configuration, to new: Configuration) -> [String] {
    new.captures.compactMap { capture in
      guard let before = old.captures.first(where: { $0.name == capture.name }), before.tables != capture.tables,
        let database = new.database(capture.database), database == old.database(before.database)
      else { return nil }
      do {
        let source = try SourceEnd(database.location().canonical)
        let kept = Set(try source.tables(TablePatterns(capture.tables)).map(\.name.nameKey))
        let gone = try source.tables(TablePatterns(before.tables)).filter {
          $0.refusal == nil && !kept.contains($0.name)
        }
        guard !gone.isEmpty else { return nil }
        let names = gone.prefix(namesMax).map(\.name).joined(separator: ", ")
        let more = gone.count > namesMax ? " and \(gone.count - namesMax) more" : ""
        let fate =
          source.server == nil
          ? "what targets have of that stays as it is"
          : "for targets that is as if it were dropped at the source, so what Cairn created goes (see 'ddl')"
        return "capture.\(capture.name) takes no more: \(names)\(more); \(fate)"
      } catch {
        let error = CairnError(enveloping: error, doing: "look at the tables of \(database.name)")
        return "capture.\(capture.name) takes other tables now, which cannot be named: \(error.message)"
      }
    }
  }
}
