import Foundation
import SystemKit
import TestServers
import Synchronization
import Testing

@testable import NetKit

@Suite struct LimitTests {
  private let handler = EchoHandler()

  private func serve(_ limits: HTTPLimits) throws -> HTTPServer {
    try HTTPServer(host: "127.0.0.1", port: 0, limits: limits, handler: handler)
  }

  @Test func `connections above the limit get an answer that says so`() throws {
    let server = try serve(HTTPLimits(connections: 3, perAddress: 100))
    var peers: [RawPeer] = []
    for _ in 0..<3 {
      let peer = try #require(RawPeer(server.port))
      peer.send("GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n")
      var byte: UInt8 = 0
      #expect(recv(peer.descriptor, &byte, 1, 0) == 1)
      peers.append(peer)
    }
    let request = "GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    var peer = try #require(RawPeer(server.port))
    peer.send(request)
    #expect(peer.status() == 503)
    peers.removeAll()
    var status: Int? = 503
    for _ in 0..<100 where status == 503 {
      Clock.sleep(milliseconds: 20)
      peer = try #require(RawPeer(server.port))
      peer.send(request)
      status = peer.status()
    }
    #expect(status == 404)
  }

  @Test func `those who say nothing give way to who comes`() throws {
    #expect(HTTPLimits(connections: 9).perAddress == 5)
    let server = try serve(HTTPLimits(connections: 3, perAddress: 100))
    let silent = (0..<3).compactMap { _ in RawPeer(server.port) }
    #expect(silent.count == 3)
    let peer = try #require(RawPeer(server.port))
    peer.send("GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    #expect(peer.status() == 404)
    // The one that has stood for longest.
    var byte: UInt8 = 0
    #expect(recv(silent[0].descriptor, &byte, 1, 0) == 0)
  }

  @Test func `connections of one address are counted`() throws {
    let server = try serve(HTTPLimits(connections: 100, perAddress: 1))
    let first = try #require(RawPeer(server.port))
    first.send("GET /wait?ms=1 HTTP/1.1\r\nHost: x\r\n\r\n")
    let peer = try #require(RawPeer(server.port))
    peer.send("GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n")
    #expect(peer.status() == 429)
  }

  @Test(arguments: ["", "GET /nowhere HTTP/1.1\r\n", "GET /nowhere HTTP/1.1\r\nHost: x\r\nX: "])
  func `a head that does not come, or trickles in, is not waited for`(beginning: String) throws {
    let server = try serve(HTTPLimits(idleSeconds: 60, handshakeSeconds: 1))
    let peer = try #require(RawPeer(server.port))
    let start = Clock.monotonicMilliseconds
    peer.send(beginning)
    var isOpen = true
    while isOpen, Clock.monotonicMilliseconds - start < 10_000 {
      Clock.sleep(milliseconds: 100)
      isOpen = peer.send("a")
    }
    #expect(!isOpen)
    #expect(Clock.monotonicMilliseconds - start < 6000)
  }

  @Test func `a body that stops, or that is unwanted and trickles in, is not waited for`() throws {
    let server = try serve(HTTPLimits(idleSeconds: 1, handshakeSeconds: 5))
    let still = try #require(RawPeer(server.port))
    still.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc")
    let unwanted = try #require(RawPeer(server.port))
    unwanted.send("POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc")
    let start = Clock.monotonicMilliseconds
    var isOpen = true
    while isOpen, Clock.monotonicMilliseconds - start < 10_000 {
      Clock.sleep(milliseconds: 100)
      isOpen = unwanted.send("a")
    }
    #expect(!isOpen)
    #expect(still.all().isEmpty)
    #expect(Clock.monotonicMilliseconds - start < 6000)
    for _ in 0..<100 where handler.abandoned.load(ordering: .relaxed) == 0 { Clock.sleep(milliseconds: 20) }
    #expect(handler.abandoned.load(ordering: .relaxed) == 1)
  }

  @Test func `an answer that the client does not take is given up`() throws {
    let server = try serve(HTTPLimits(idleSeconds: 1, handshakeSeconds: 5))
    let peer = try #require(RawPeer(server.port))
    peer.send("GET /memory?count=100000000 HTTP/1.1\r\nHost: x\r\n\r\n")
    Clock.sleep(milliseconds: 4000)
    #expect(peer.all().count < 50_000_000)
  }

  @Test(arguments: [
    ("GET /../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", 400), ("GET /a%00b HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
    ("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\nabc", 400),
    ("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -3\r\n\r\nabc", 400),
    ("GET / HTTP/1.1\r\nHost: x\r\nX: \(String(repeating: "a", count: 20000))\r\n\r\n", 431),
    ("GET /\(String(repeating: "a", count: 200_000)) HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    (
      "POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
      200
    ),
  ]) func `a text that could be read in two ways is refused`(request: String, status: Int) throws {
    let server = try serve(HTTPLimits(handshakeSeconds: 2))
    let peer = try #require(RawPeer(server.port))
    peer.send(request)
    #expect(peer.status() == status)
  }

  @Test func `patience is for what moves`() {
    let limits = HTTPLimits(idleSeconds: 10, handshakeSeconds: 2)
    var patience = ConnectionPatience(now: 0)
    func isOver(_ now: Int64, _ moved: UInt64) -> Bool { patience.isOver(now: now, moved: moved, limits) }
    #expect(!isOver(2000, 0))
    #expect(isOver(2001, 7))
    patience.enter(.handling, now: 2001)
    #expect(!isOver(1_000_000, 7))
    patience.enter(.moving, now: 1_000_000)
    for second in 1...30 {
      #expect(!isOver(1_000_000 + Int64(second) * 1000, UInt64(7 + second)))
    }
    #expect(isOver(1_040_001, 37))
    patience.enter(.dropping, now: 2_000_000)
    patience.enter(.dropping, now: 2_009_000)
    #expect(isOver(2_010_001, 99))
    patience.enter(.receivingFromStranger, now: 2_020_000)
    patience.enter(.handling, now: 2_021_000)
    patience.enter(.receivingFromStranger, now: 2_021_500)
    #expect(!isOver(2_022_000, 100) && isOver(2_022_001, 101), "each byte more is no reason to wait longer")
    patience.enter(.waiting(isFirst: false), now: 3_000_000)
    #expect(!isOver(3_010_000, 99))
    #expect(isOver(3_010_001, 100))
  }
}
