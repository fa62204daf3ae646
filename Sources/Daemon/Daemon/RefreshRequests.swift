import Changes
import Pumping
import Replicating
import Synchronization
import SystemKit

/// The requests for refreshes of tables, on their way to the node where the trail begins. The state folder keeps a
/// request until it is removed, at the latest 7 days after it was last received.
package final class RefreshRequests: Sendable {
  package struct Request: Equatable, Sendable {
    package enum Asker: Equatable, Sendable {
      case apply(String)
      /// Another node, which made the request or forwarded it.
      case peer(String)
    }

    @ByBytes package var id: String
    @ByBytes package var trail: String
    /// The patterns of the requested tables; empty for all tables.
    @ByBytes package var tables: [String]
    package var asker: Asker
    /// The number of the trail's last transaction at the time of the request. Only a refresh that begins after that
    /// transaction answers the request.
    package var behind: UInt64 = 0
    /// The time when the request was last received, in µs since 1970 UTC.
    package var askedAt: Int64
    /// Whether the request is finished: the capture has started the refreshes, or no captured table matched the
    /// request.
    package var isDone = false
    package var isMissing = false

    package init(id: String, trail: String, tables: [String], asker: Asker, askedAt: Int64) {
      (self.id, self.trail, self.tables, self.asker, self.askedAt) = (id, trail, tables, asker, askedAt)
    }
  }

  // In µs: a request that no node repeats is removed after this time.
  private static let keptMicroseconds: Int64 = 7 * 86_400_000_000
  static let ofPeerMax = 64
  // The oldest are removed first.
  static let doneOfPeerMax = 256
  // The new requests that a peer may make at once; then one more every five seconds.
  private static let burst = 128
  private static let refillMicroseconds: Int64 = 5_000_000

  private let folder: String
  private let book = Mutex<[Request]>([])
  // The ids of this node's own requests, which it ignores if they come back in a ring of nodes.
  private let own = Mutex<[String]>([])
  private let allowances = Mutex(Allowances(burst: RefreshRequests.burst, refill: RefreshRequests.refillMicroseconds))
  private static let ownMax = 1_000

  package init(state: String) {
    folder = state + "/requests"
    guard let trails = try? Folder.names(folder) else { return }
    for trail in trails.sorted() {
      for id in ((try? Folder.names("\(folder)/\(trail)")) ?? []).sorted() {
        guard let text = try? File.text("\(folder)/\(trail)/\(id)"),
          let request = Request(id: id, trail: trail, parsing: text)
        else { continue }
        book.withLock { $0.append(request) }
        if case .apply = request.asker { noteOwn(id) }
      }
    }
  }

  private func noteOwn(_ id: String) {
    own.withLock { own in
      own.append(id)
      if own.count > Self.ownMax { own.removeFirst() }
    }
  }

  package var all: [Request] { book.withLock { $0 } }

  // MARK: Asking

  /// Requests a refresh of tables for an apply of this node, unless an equal request is stored. The request is durable
  /// at return.
  ///
  /// - Parameter behind: The number of the trail's last transaction. Only a refresh that begins after it answers the
  ///   request.
  package func ask(_ trail: TrailName, _ tables: [String], for apply: String, behind: UInt64, now: Int64) throws {
    let asker = Request.Asker.apply(apply)
    let isThere = book.withLock { book in
      book.contains { $0.trail == trail.description && $0.asker == asker && $0.tables == tables && $0.behind == behind }
    }
    guard !isThere else { return }
    let id = UInt64.random(in: 0 ... .max).hex(16) + UInt64.random(in: 0 ... .max).hex(16)
    var request = Request(id: id, trail: trail.description, tables: tables, asker: asker, askedAt: now)
    request.behind = behind
    noteOwn(id)
    do { try write(request) } catch { throw error.asCairnError(doing: "ask for a copy") }
    book.withLock { $0.append(request) }
  }

  /// Stores a request of another node. Returns false if the request is invalid or cannot be stored, or if the node
  /// makes too many requests.
  @discardableResult package func note(
    _ id: String, _ trail: TrailName, _ tables: [String], from peer: String, now: Int64
  ) -> Bool {
    guard Pumping.CopyRequest.isID(id) else { return false }
    if own.withLock({ $0.contains(id) }) { return true }
    let fresh: Request? = book.withLock { book in
      if let index = book.firstIndex(where: { $0.id == id && $0.trail == trail.description }) {
        book[index].askedAt = now
        return nil
      }
      return Request(id: id, trail: trail.description, tables: tables, asker: .peer(peer), askedAt: now)
    }
    guard let fresh else { return true }
    guard all.count(where: { $0.asker == fresh.asker && !$0.isDone }) < Self.ofPeerMax else { return false }
    guard allowances.withLock({ $0.take(peer, now: now) }) else { return false }
    guard (try? write(fresh)) != nil else { return false }
    book.withLock { book in
      if !book.contains(where: { $0.id == id && $0.trail == fresh.trail }) { book.append(fresh) }
    }
    return true
  }

  // MARK: What is open

  /// Returns the open requests for refreshes of tables of a trail.
  package func open(_ trail: TrailName) -> [Request] {
    book.withLock { $0.filter { $0.trail == trail.description && !$0.isDone } }
  }

  /// Marks a request as finished. If a peer repeats the request with the same id, no further refresh is made.
  ///
  /// - Parameter isMissing: Whether no captured table matched the request.
  package func carriedOut(_ request: Request, isMissing: Bool = false) {
    defer { forgetSurplus(of: request.asker) }
    var done = request
    (done.isDone, done.isMissing) = (true, isMissing)
    try? write(done)
    book.withLock { [done] book in
      let index = book.firstIndex { $0.id == request.id && $0.trail == request.trail }
      // An older message of the peer may have ended the request meanwhile; a newer message must not carry it out again.
      guard let index else { return book.append(done) }
      (book[index].isDone, book[index].isMissing) = (true, isMissing)
    }
  }

  // MARK: Settling

  /// Removes the requests for which `isSettled` returns true.
  package func settle(_ isSettled: (Request) -> Bool) {
    let gone = book.withLock { book in
      let gone = book.filter(isSettled)
      book.removeAll(where: isSettled)
      return gone
    }
    for request in gone { try? Folder.remove("\(folder)/\(request.trail)/\(request.id)") }
  }

  /// Removes the open requests of a peer for a trail, except those in `ids`.
  package func settle(of peer: String, _ trail: TrailName, besides ids: [String]) {
    settle {
      $0.asker == .peer(peer) && $0.trail == trail.description && !ids.contains($0.id) && !$0.isDone
    }
  }

  private func forgetSurplus(of asker: Request.Asker) {
    guard case .peer = asker else { return }
    let done = all.filter { $0.asker == asker && $0.isDone }.sorted { $0.askedAt < $1.askedAt }
    guard done.count > Self.doneOfPeerMax else { return }
    let surplus = Set(done.prefix(done.count - Self.doneOfPeerMax).map { "\($0.trail) \($0.id)" })
    settle { surplus.contains("\($0.trail) \($0.id)") }
  }

  package func forgetOld(now: Int64) { settle { now - $0.askedAt > Self.keptMicroseconds } }

  private func write(_ request: Request) throws(FileError) {
    try Folder.create(folder)
    try Folder.create("\(folder)/\(request.trail)")
    try File.replace("\(folder)/\(request.trail)/\(request.id)", text: request.line, permissions: 0o644)
  }
}

extension RefreshRequests.Request {
  fileprivate var line: String {
    var object = JSONObject([
      ("tables", .list(tables.map { .text($0) })), ("behind", .integer(Int64(clamping: behind))),
      ("asked_at", .integer(askedAt)), ("done", .bool(isDone)), ("missing", .bool(isMissing)),
    ])
    switch asker {
    case .apply(let name): object["apply"] = .text(name)
    case .peer(let name): object["peer"] = .text(name)
    }
    return object.line + "\n"
  }

  fileprivate init?(id: String, trail: String, parsing text: String) {
    guard case .object(let object)? = try? JSONReader.read(Array(text.utf8)), TrailName(trail) != nil,
      let askedAt = object.integer("asked_at"), NumberBounds.isTime(askedAt)
    else { return nil }
    let tables = object.list("tables").compactMap { if case .text(let text) = $0 { text } else { nil } }
    guard let asker = object.text("apply").map(Asker.apply) ?? object.text("peer").map(Asker.peer) else { return nil }
    self.init(id: id, trail: trail, tables: tables, asker: asker, askedAt: askedAt)
    behind = min(UInt64(clamping: object.integer("behind") ?? 0), NumberBounds.numbers - 1)
    isDone = object.bool("done") ?? false
    isMissing = object.bool("missing") ?? false
  }
}
