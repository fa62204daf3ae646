/// The name of a worker, such as `capture.pos`, `pump.pos-to-hq` or `receive`.
///
///     WorkerName("capture.pos")   // kind .capture, name "pos"
///     WorkerName(.pump, "pos-to-hq").description   // "pump.pos-to-hq"
package struct WorkerName: Hashable, Comparable, Sendable, CustomStringConvertible {
  package enum Kind: String, CaseIterable, Sendable {
    case capture
    case pump
    /// Listens for other nodes. A daemon has at most one such worker.
    case receive
    case apply
    /// Makes files of a database at intervals.
    case snapshot
    /// Writes to an idle PostgreSQL source, so that its slot advances.
    case heartbeat
    /// Deletes the segments that no reader needs.
    case purge
    /// A peer that pulls trails from this node. Such a reader is no worker of this daemon.
    case peer
  }

  package let kind: Kind
  /// The name of the section in the conf. A purge has the name of its capture or trail.
  package let name: String

  package static let receive = WorkerName(.receive, "")
  /// The purge of all received trails that no other worker purges.
  package static let purgeOfCopies = WorkerName(.purge, "*")

  package init(_ kind: Kind, _ name: String) { (self.kind, self.name) = (kind, name) }

  /// Parses `KIND.NAME` or `receive`; nil for any other text.
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

  /// Whether the worker only serves other workers, so that lists for operators leave it out while it is well.
  package var isHelper: Bool { kind == .heartbeat || kind == .purge }

  package var description: String { name.isEmpty ? kind.rawValue : "\(kind.rawValue).\(name)" }

  /// Orders workers by their kind, in the order of ``Kind``, and workers of one kind by name.
  package static func < (a: Self, b: Self) -> Bool { (a.rank, a.name) < (b.rank, b.name) }
  private var rank: Int { Kind.allCases.firstIndex(of: kind) ?? 0 }

  /// Returns the worker in `all` that `text` names, such as `apply.pos`. A capture, pump or apply can also be named
  /// without its kind (`pos`). Nil if no worker fits, or several do.
  package static func meant(by text: String, among all: [WorkerName]) -> WorkerName? {
    if let whole = WorkerName(text), all.contains(whole) { return whole }
    let named = all.filter { $0.name == text && [.capture, .pump, .apply].contains($0.kind) }
    return named.count == 1 ? named[0] : nil
  }
}
