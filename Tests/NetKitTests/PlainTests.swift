import Changes
import Foundation
import NetKit
import SystemKit
import Testing

@Suite struct PlainTests {
  private let handler = EchoHandler()
  private let stop = StopSignal()

  private func client(_ server: HTTPServer, _ options: HTTPClient.Options = .init(), host: String = "127.0.0.1") throws
    -> HTTPClient
  {
    try HTTPClient(base: "http://\(host):\(server.port)", options: options, stop: stop)
  }

  @Test(arguments: ["127.0.0.1", "[::1]"]) func `bodies come back as they went, over one connection`(host: String)
    throws
  {
    let server = try HTTPServer(host: host == "[::1]" ? "::1" : host, port: 0, handler: handler)
    let client = try client(server, host: host)
    for count in [0, 1, 65536, 4 << 20] {
      let body = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
      var got: [UInt8] = []
      let reply = try body.withUnsafeBytes { try client.perform("POST", "/echo", body: $0) { got += Array($0) } }
      #expect(reply.status == 200)
      #expect(got == body)
    }
    #expect(handler.finished.load(ordering: .relaxed) == 4)
    #expect(try client.perform("GET", "/nowhere").status == 404)
    server.stop()
    let error = #expect(throws: CairnError.self) { try client.perform("GET", "/nowhere") }
    #expect(error?.code == .peerUnreachable)
    #expect(error?.message.contains("onnection refused") == true)
  }
}
