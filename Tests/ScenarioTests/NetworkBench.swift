import Foundation
import Glibc
import TestServers
import Testing

/// Several nodes on loopback, each with a daemon of its own; their databases are files in one folder.
final class NetworkBench {
  final class Node {
    let name: String
    let conf: String
    let variables: [String: String]
    var daemon: Child?
    var starts = 0
    init(_ name: String, _ conf: String, _ variables: [String: String]) {
      (self.name, self.conf, self.variables) = (name, conf, variables)
    }
  }

  let bench: Bench
  private(set) var nodes: [Node] = []

  init() throws { bench = try Bench() }

  /// Returns a port of loopback that no program listens on. It is below those that the system gives to clients.
  static func freePort() throws -> UInt16 {
    for _ in 0..<200 {
      let port = UInt16.random(in: 12_000...29_000)
      let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
      defer { close(descriptor) }
      var address = sockaddr_in()
      address.sin_family = sa_family_t(AF_INET)
      address.sin_port = port.bigEndian
      address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
      let code = withUnsafePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          Glibc.bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
      }
      if code == 0 { return port }
    }
    throw TestFailure("no free port on loopback")
  }

  /// Adds a node and starts its daemon; `conf` is a file.
  @discardableResult
  func start(_ name: String, _ conf: String, _ variables: [String: String] = [:]) throws -> Node {
    let node = Node(name, conf, variables.merging(["CAIRN_ROOT": bench.folder]) { $1 })
    nodes.append(node)
    try start(node)
    return node
  }

  func start(_ node: Node) throws {
    node.starts += 1
    let runtime = bench.path("run-\(node.name)")
    try FileManager.default.createDirectory(atPath: runtime, withIntermediateDirectories: true)
    node.daemon = try bench.start(
      "\(node.name)-\(node.starts)", DaemonBench.cairnd, ["--config", node.conf],
      environment: node.variables.merging(["RUNTIME_DIRECTORY": runtime]) { $1 })
  }

  /// Ends it; its exit status.
  @discardableResult
  func end(_ node: Node, _ signal: Int32 = SIGTERM) -> Int32 {
    guard let daemon = node.daemon else { return -1 }
    daemon.signal(signal)
    daemon.wait(seconds: 30)
    node.daemon = nil
    return daemon.terminationStatus
  }

  func endAll() { for node in nodes where node.daemon != nil { #expect(end(node) == 0, "\(log(node))") } }

  func log(_ node: Node) -> String { (1...max(1, node.starts)).map { bench.text("\(node.name)-\($0).err") }.joined() }

  /// The logs of all nodes, for a test that failed.
  var logs: String { nodes.map { "--- \($0.name)\n\(log($0).suffix(2500))" }.joined(separator: "\n") }

  @discardableResult
  func cairn(_ node: Node, _ words: String...) throws -> Outcome {
    try bench.run(
      Bench.cairn, words + ["--socket", bench.path("run-\(node.name)/control")], environment: node.variables)
  }

  func status(_ node: Node) -> [String: Any] {
    guard let outcome = try? cairn(node, "status", "--json"), let data = outcome.output.data(using: .utf8) else {
      return [:]
    }
    return ((try? JSONSerialization.jsonObject(with: data)) as? [String: Any]) ?? [:]
  }

  func paths(_ node: Node) -> [[String: Any]] { status(node)["paths"] as? [[String: Any]] ?? [] }

  func wait(seconds: Double = 30, _ condition: () -> Bool) -> Bool {
    let limit = Date().addingTimeInterval(seconds)
    while Date() < limit {
      if condition() { return true }
      usleep(100_000)
    }
    return condition()
  }

  func wait(for database: String, _ sql: String, _ expected: String, seconds: Double = 30) -> Bool {
    wait(seconds: seconds) {
      (try? bench.sqlite(database, sql).trimmingCharacters(in: .whitespacesAndNewlines)) == expected
    }
  }
}
