/// A worker of the daemon, as people call it: `capture.pos`, `apply.erp`, `heartbeat.erp`, `purge.pos`.
package struct WorkerName: Hashable, Comparable, Sendable, CustomStringConvertible {
  package enum Kind: String, CaseIterable, Sendable {
    case capture
    case apply
    /// Writes to an idle PostgreSQL source, so that its slot moves.
    case heartbeat
    /// Deletes what every reader of a trail has behind it.
    case purge
  }

  package let kind: Kind
  /// Of the capture or apply in the conf; for a trail, the capture's.
  package let name: String

  package init(_ kind: Kind, _ name: String) { (self.kind, self.name) = (kind, name) }

  /// Reads `KIND.NAME`; nil for anything else.
  package init?(_ text: String) {
    guard let dot = text.firstIndex(of: "."), let kind = Kind(rawValue: String(text[..<dot])) else { return nil }
    let name = String(text[text.index(after: dot)...])
    guard !name.isEmpty else { return nil }
    self.init(kind, name)
  }

  package var description: String { "\(kind.rawValue).\(name)" }

  /// In the way of the data.
  package static func < (a: Self, b: Self) -> Bool { (a.rank, a.name) < (b.rank, b.name) }
  private var rank: Int { Kind.allCases.firstIndex(of: kind) ?? 0 }

  /// The one of `all` that `text` means: its whole name, or the name of its section where only one has it.
  package static func meant(by text: String, among all: [WorkerName]) -> WorkerName? {
    if let whole = WorkerName(text), all.contains(whole) { return whole }
    let named = all.filter { $0.name == text && [.capture, .apply].contains($0.kind) }
    return named.count == 1 ? named[0] : nil
  }
}
