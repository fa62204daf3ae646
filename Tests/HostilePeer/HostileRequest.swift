import Changes
import Foundation
import TestServers

/// A request of a peer that holds a certificate, with extreme values in its path, its query, its head and its body.
package struct HostileRequest {
  /// Ids and chain hashes of two trails of the node: one that the peer may pull, and one that it may not.
  package struct Known: Sendable {
    package var ids: [String]
    package var chains: [String]
    package init(ids: [String], chains: [String]) { (self.ids, self.chains) = (ids, chains) }
  }

  package var method: String
  package var path: String
  package var query: [String: String] = [:]
  package var node: String
  package var range: String
  package var body: [UInt8] = []

  package init(_ random: inout Seeded, _ known: Known) {
    func pick<T>(_ all: [T]) -> T { all[Int.random(in: 0..<all.count, using: &random)] }
    let trail = pick([
      "hub.open", "hub.secret", "evil.x", "evil.x", "evil.y", "evil..", "..", "evil.x/../hub.secret", "é.x",
      String(repeating: "a", count: 300) + ".x", "evil.n\(Int.random(in: 0..<50, using: &random))",
    ])
    let id = pick(["\(HostileSegment.id(7))", "00", "", String(repeating: "f", count: 32)] + known.ids)
    let number = HostileTrails.number(&random)
    let file = pick(["00000001.seg", "00000001.seg", number.hex(8) + ".seg", "\(number).seg", "-1.seg", "../durable"])
    let chains = ["\(ChainHash.zero)", "zz", "", "00"] + known.chains
    if Bool.random(using: &random) {
      query["offset"] = pick(["0", "0", "512", "\(number)", "-1", "x", "99999999999999999999"])
    }
    if Bool.random(using: &random) { query["chain"] = pick(chains) }
    if Int.random(in: 0..<4, using: &random) == 0 { query["wait"] = pick(["0", "-1", "x", "99999999999999999999"]) }
    if Int.random(in: 0..<4, using: &random) == 0 {
      query["applied"] = pick(["\(number.hex(8)):\(number.hex(8))", "1", ":"])
    }
    if Int.random(in: 0..<4, using: &random) == 0 {
      query["restart"] = pick(["\(number.hex(8)):\(number)", "1:512", "x"])
    }
    path = pick([
      "/cairn/1/trails/\(trail)/\(id)/\(file)", "/cairn/1/trails/\(trail)/\(id)/\(file)",
      "/cairn/1/trails/\(trail)/\(id)/\(file)", "/cairn/1/trails/\(trail)", "/cairn/1/trails/\(trail)/requests",
      "/cairn/1/trails/\(trail)/questions", "/cairn/1/questions", "/cairn/1/questions/\(number.hex(16))",
      "/cairn/1/trails", "/cairn/1/requests", "/cairn", "/", "/cairn/\(number)/trails",
    ])
    method = pick(["GET", "POST", "POST", "HEAD", "PUT"])
    node = pick(["evil", "evil", "evil", "stranger", "hub"])
    range = pick(["", "bytes=0-", "bytes=\(HostileTrails.number(&random))-", "bytes=-1"])
    if method == "POST" { body = Self.body(&random) }
    // Some are right except for the body: they get as far as a request can.
    if method == "POST", Int.random(in: 0..<4, using: &random) == 0 {
      let name = ["x", "y", "n\(Int.random(in: 0..<50, using: &random))"].randomElement(using: &random) ?? "x"
      // The first one to come fixes the id of its trail.
      let id = HostileSegment.id(UInt8.random(in: 1...200, using: &random))
      let whole = HostileTrails.segment(TrailName(origin: "evil", name: name), &random, id: id)
      path = "/cairn/1/trails/evil.\(name)/\(id)/\(whole.number.hex(8)).seg"
      (query, node) = (["offset": "0", "chain": "\(whole.start)"], "evil")
      body = whole.bytes
      guard Int.random(in: 0..<50, using: &random) == 0 else { return }
      // Megabytes of a transaction that never ends, each time in another trail: the limit of the disk is reached.
      let large = TrailName(origin: "evil", name: "large\(Int.random(in: 0..<40, using: &random))")
      path = "/cairn/1/trails/\(large)/\(HostileSegment.id(7))/00000001.seg"
      var segment = HostileSegment(large)
      var records = HostileRecords()
      records.begin(1)
      records.add(RecordKind.marker) { $0.append(Array(repeating: 1, count: 3 << 20)) }
      segment.block(records.bytes, HostileSegment.Flags.none)
      body = segment.bytes
    }
  }

  private static func body(_ random: inout Seeded) -> [UInt8] {
    switch Int.random(in: 0..<8, using: &random) {
    case 0...2:
      let name = TrailName(origin: "evil", name: ["x", "y", "n1"].randomElement(using: &random) ?? "x")
      var bytes = HostileTrails.segment(name, &random).bytes
      if Bool.random(using: &random) {
        bytes[Int.random(in: 0..<bytes.count, using: &random)] ^= UInt8.random(in: 1...255, using: &random)
      }
      return bytes
    case 3:
      let id = HostileTrails.text(&random)
      return Array(
        "{\"requests\": [{\"id\": \"\(id)\", \"tables\": [\"\(id)\"]}, {\"id\": \"a\", \"tables\": []}]}".utf8)
    case 4: return Array(String(repeating: "[", count: Int.random(in: 1...3000, using: &random)).utf8)
    case 5:
      return (0..<Int.random(in: 0..<300, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
    default: return []
    }
  }

  /// The request as it goes over a connection that stays open.
  package var bytes: [UInt8] {
    let query = query.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: "&")
    var head = "\(method) \(path)\(query.isEmpty ? "" : "?\(query)") HTTP/1.1\r\nHost: x\r\nCairn-Node: \(node)\r\n"
    if !range.isEmpty { head += "Range: \(range)\r\n" }
    return Array("\(head)Content-Length: \(body.count)\r\n\r\n".utf8) + body
  }
}

/// A connection of a hostile peer that stays open from one request to the next.
final class HostileConnection {
  struct Answer {
    var status: Int
    var body: [UInt8]
  }

  private let port: UInt16
  private var peer: RawPeer?
  private var rest: [UInt8] = []

  init(_ port: UInt16) { self.port = port }

  /// Sends a request and reads its answer; nil if the node ended the connection without one.
  func ask(_ bytes: [UInt8], isHead: Bool) -> Answer? {
    if peer == nil { peer = RawPeer(port) }
    guard let peer else { return nil }
    peer.send(bytes)
    guard let (answer, isLast) = read(peer, isHead) else {
      close()
      return nil
    }
    if isLast { close() }
    return answer
  }

  /// Sends a part of a request, and goes without a word.
  func breakOff(_ bytes: [UInt8]) {
    if peer == nil { peer = RawPeer(port) }
    peer?.send(Array(bytes.prefix(bytes.count / 2)))
    close()
  }

  private func close() { (peer, rest) = (nil, []) }

  private func read(_ peer: RawPeer, _ isHead: Bool) -> (Answer, isLast: Bool)? {
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    func more() -> Bool {
      let count = recv(peer.descriptor, &buffer, buffer.count, 0)
      if count > 0 { rest += buffer.prefix(count) }
      return count > 0
    }
    let border = Array("\r\n\r\n".utf8)
    var end: Int?
    while true {
      end = rest.firstRange(of: border)?.lowerBound
      if end != nil { break }
      guard rest.count < 1 << 20, more() else { return nil }
    }
    guard let end else { return nil }
    let head = String(decoding: rest[..<end], as: UTF8.self).components(separatedBy: "\r\n")
    rest.removeFirst(end + 4)
    let words = head[0].split(separator: " ")
    guard words.count > 1, let status = Int(words[1]) else { return nil }
    var (length, isLast) = (0, false)
    for line in head.dropFirst() {
      let (name, value) = (line.prefix { $0 != ":" }.lowercased(), line.drop { $0 != ":" }.dropFirst(2))
      if name == "content-length" { length = Int(value) ?? 0 }
      if name == "connection", value.lowercased() == "close" { isLast = true }
    }
    if isHead || status == 204 || status == 304 || status < 200 { length = 0 }
    while rest.count < length { guard more() else { return nil } }
    let body = Array(rest.prefix(length))
    rest.removeFirst(length)
    return (Answer(status: status, body: body), isLast)
  }
}
