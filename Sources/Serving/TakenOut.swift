import Changes
import Configuring
import Operating

/// Tables that another conf takes out of a capture that goes on: what targets have of them is kept in step no more.
enum TakenOut {
  private static let namesMax = 10

  /// A sentence for each capture of which tables are taken out.
  static func notices(from old: Configuration, to new: Configuration) -> [String] {
    new.captures.compactMap { capture in
      guard let before = old.captures.first(where: { $0.name == capture.name }), before.tables != capture.tables,
        let database = new.database(capture.database), database == old.database(before.database)
      else { return nil }
      let trail = new.trail(of: capture)
      let applies = new.applies.filter { $0.trail == trail }.map { "apply.\($0.name)" }
      let stays =
        "what \(applies.isEmpty ? "targets of trail \(trail) have" : "\(applies.joined(separator: ", ")) brought") of"
      do {
        let source = try SourceEnd(database.location().canonical)
        let kept = TablePatterns(capture.tables)
        let names = try source.tables(TablePatterns(before.tables)).filter { $0.refusal == nil }.map(\.name)
        let stayed = Set(try source.tables(kept).map(\.name))
        let gone = names.filter { !stayed.contains($0) }
        guard let first = gone.first else { return nil }
        if gone.count == 1 {
          return "capture.\(capture.name) takes table \(first) no more: \(stays) it stays as it is"
        }
        let more = gone.count > namesMax ? " and \(gone.count - namesMax) more" : ""
        return
          "capture.\(capture.name) takes tables \(gone.prefix(namesMax).joined(separator: ", "))\(more) no more: \(stays) them stays as it is"
      } catch {
        let error = CairnError(enveloping: error, doing: "look at the tables of \(database.name)")
        return
          "capture.\(capture.name) takes other tables now, which cannot be named: \(error.message); \(stays) tables that it takes no more stays as it is"
      }
    }
  }
}
