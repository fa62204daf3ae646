/// The engine at one end.
enum Engine: String, CaseIterable {
  case postgres, sqlite
}

/// The engines of source and target.
struct Pair: Hashable {
  let from: Engine
  let to: Engine

  static let all = Engine.allCases.flatMap { from in Engine.allCases.map { Pair(from: from, to: $0) } }

  var name: String { "\(from.rawValue)-\(to.rawValue)" }

  init(from: Engine, to: Engine) { (self.from, self.to) = (from, to) }

  /// Reads `postgres-sqlite`, and `pg-sqlite` as well.
  init?(_ text: String) {
    let ends = text.split(separator: "-").map { Engine(rawValue: $0 == "pg" ? "postgres" : String($0)) }
    guard ends.count == 2, let from = ends[0], let to = ends[1] else { return nil }
    self.init(from: from, to: to)
  }
}
