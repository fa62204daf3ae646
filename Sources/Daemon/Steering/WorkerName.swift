/// The name of a worker as people write it: `capture.pos`, `pump.pos-to-hq`, `receive`, `apply.erp`, `purge.pos`.
package struct WorkerName: Hashable, Comparable, Sendable, CustomStringConvertible {
  package enum Kind: String, CaseIterable, Sendable {
    case capture
    /// Copies trails to another node, or fetches them from there.
    case pump
    /// Listens for other nodes. A daemon has at most one such worker.
    case receive
    case apply
    /// Writes to an idle PostgreSQL source, so that its replication slot advances.
    case heartbeat
    /// Deletes the segments that every reader of a trail has finished with.
    case purge
    /// Another node that pulls trails from this one: a reader, and no worker of this daemon.
    case peer
  }

  package let kind: Kind
  /// The name of the section in the conf; for a purge, the name of the capture or of the trail. Empty for a kind of
  /// which a daemon has only one worker.
  package let name: String

  package static let receive = WorkerName(.receive, "")
  /// The purge of all received trails that no other worker purges.
  package static let purgeOfCopies = WorkerName(.purge, "*")

  package init(_ kind: Kind, _ name: String) { (self.kind, self.name) = (kind, name) }

  /// Parses `KIND.NAME`, or `receive`. Returns nil for any other text.
  package init?(_ text: String) {
    if text == Kind.receive.rawValue {
      self = .receive
      return
    }
    guard let dot = text.firstIndex(of: "."), let kind = Kind(rawValue: String(text[..<dot])) else { return nil }
    let name = String(text[text.index(after: dot)...])
    guard !name.isEmpty else { return nil }
    self.init(kind, name)
  }

  package var description: String { name.isEmpty ? kind.rawValue : "\(kind.rawValue).\(name)" }

  /// Orders workers by the flow of the data: captures come before pumps, and pumps before apply workers.
  package static func < (a: Self, b: Self) -> Bool { (a.rank, a.name) < (b.rank, b.name) }
  private var rank: Int { Kind.allCases.firstIndex(of: kind) ?? 0 }

  /// Returns the worker in `all` that `text` names: by its whole name, or by the name of its section if only one
  /// capture, pump or apply has that name. Nil if no worker fits.
  package static func meant(by text: String, among all: [WorkerName]) -> WorkerName? {
    if let whole = WorkerName(text), all.contains(whole) { return whole }
    let named = all.filter { $0.name == text && [.capture, .pump, .apply].contains($0.kind) }
    return named.count == 1 ? named[0] : nil
  }
}
