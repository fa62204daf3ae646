import Glibc
import SystemKit

/// The options of the command line.
struct BenchOptions {
  var workloads = Workload.allCases
  var pairs = Pair.all
  var rounds = 3
  /// Rows and seconds of every workload are multiplied by it.
  var scale = 1.0
  /// The size of the trail that goes to another node, in bytes.
  var backlogBytes: UInt64 = 1 << 30
  /// The program that is measured.
  var cairn = BenchOptions.neighbour

  struct Misuse: Error {
    let message: String
  }

  /// `cairn` in the folder of this program.
  private static var neighbour: String {
    var path = [CChar](repeating: 0, count: Int(PATH_MAX))
    let count = readlink("/proc/self/exe", &path, path.count)
    let bytes = path.prefix(max(0, count)).map { UInt8(bitPattern: $0) }
    return Folder.parent(of: String(decoding: bytes, as: UTF8.self)) + "/cairn"
  }

  static var help: String {
    let workloads = Workload.allCases.map { "  \($0.rawValue)  \($0.summary)" }.joined(separator: "\n")
    return """
      cairn-bench: measures cairn beside PostgreSQL's own replication and the raw speed of the engines

      usage: cairn-bench [--workloads W1,W4] [--pairs pg-pg,pg-sqlite] [--rounds 3] [--scale 1.0] [--backlog MIB]
                         [--cairn PATH]

      Prints one JSON object a line for each workload and pair of engines; progress goes to standard error. It starts
      servers of its own in temporary folders, which are gone when it ends, however it ends.

        --workloads LIST   which ones (default: all)
        --pairs LIST       pairs of postgres (or pg) and sqlite, source first (default: all)
        --rounds N         each figure is the median of N rounds (default 3)
        --scale X          multiplies rows and seconds, such as 0.01 to see whether it works
        --backlog MIB      length of the trail that goes to another node (W9, default 1024; --scale counts besides)
        --cairn PATH       the program to measure (default: cairn beside this program)

      \(workloads)

      example: cairn-bench --workloads W1 --pairs pg-sqlite
      """
  }

  /// Reads the words after the program's name.
  init(_ words: [String]) throws(Misuse) {
    var rest = words[...]
    while let name = rest.popFirst() {
      guard let value = rest.popFirst() else { throw Misuse(message: "\(name) is unknown, or lacks its value") }
      let list = value.split(separator: ",").map(String.init)
      switch name {
      case "--workloads":
        workloads = try Self.read(list, "workload") { Workload(rawValue: $0.uppercased()) }
      case "--pairs": pairs = try Self.read(list, "pair") { Pair($0) }
      case "--rounds": rounds = try Self.read([value], "number of rounds") { Int($0) }[0]
      case "--scale": scale = try Self.read([value], "scale") { Double($0) }[0]
      case "--backlog": backlogBytes = try Self.read([value], "number of MiB") { UInt64($0) }[0] << 20
      case "--cairn": cairn = value
      default: throw Misuse(message: "option \(name) is unknown")
      }
    }
    guard rounds > 0 else { throw Misuse(message: "--rounds is \(rounds), at least 1 is needed") }
    guard scale > 0, scale <= 100 else {
      throw Misuse(message: "--scale is \(scale), more than 0 is needed, 100 at most")
    }
    guard access(cairn, X_OK) == 0 else {
      throw Misuse(message: "there is no program \(cairn): 'make bench' builds it")
    }
  }

  private static func read<T>(_ words: [String], _ what: String, _ parse: (String) -> T?) throws(Misuse) -> [T] {
    var values: [T] = []
    for word in words {
      guard let value = parse(word) else { throw Misuse(message: "'\(word)' is no \(what)") }
      values.append(value)
    }
    return values
  }

  /// Returns `count` times the scale; at least one.
  func scaled(_ count: Int) -> Int { max(1, Int(Double(count) * scale)) }
}
