/// One of the workloads of `docs/explanation/benchmarks.md`.
enum Workload: String, CaseIterable {
  case inserts = "W1"
  case pgbench = "W2"
  case latency = "W3"
  case scattered = "W4"
  case oneTransaction = "W5"
  case firstCopy = "W6"
  case triggers = "W7"
  case compare = "W8"
  case copies = "W9"
  case copyLatency = "W10"
  case idlePeers = "W11"
  case twoWay = "W12"
  case embedded = "W13"
  case statements = "W14"
  case hotRows = "W15"

  var summary: String {
    switch self {
    case .inserts: "a backlog of 500,000 rows inserted, 100 a transaction, drained"
    case .pgbench: "a backlog of 30 s of pgbench (TPC-B-like, scale 10), drained; PostgreSQL sources"
    case .latency: "200 single-row transactions at 50/s, from commit to visible"
    case .scattered: "a backlog of 200,000 updates and 50,000 deletes by scattered keys, drained"
    case .oneTransaction: "a backlog of one transaction that updates 500,000 rows, drained"
    case .firstCopy: "the first copy of 500,000 rows"
    case .triggers: "500,000 inserts by a program whose SQLite file is captured, against one that is not"
    case .compare: "cairn compare of 1,000,000 rows that are equal"
    case .copies: "a trail of 1 GiB (--backlog) that goes to another node, pushed and pulled, plain and over TLS"
    case .copyLatency: "500 single-row transactions at 50/s, from the trail to the durable copy at another node"
    case .twoWay: "the backlogs of W1 and W4, in the trail already, applied two-way without conflicts and one way"
    case .embedded: "500,000 inserts through the embedded API, with capture, against without and against plain calls"
    case .statements: "one UPDATE of 1,000,000 rows, executed as a statement, against by hand and as rows"
    case .hotRows: "2,000 transactions at each end that write the same five rows, then brought together two-way"
    case .idlePeers: "200 nodes that wait for news: processor time and memory of the one that they ask"
    }
  }

  var unit: String {
    switch self {
    case .inserts, .pgbench, .scattered, .oneTransaction, .twoWay: "changes/s"
    case .hotRows: "transactions/s"
    case .latency, .copyLatency: "ms"
    case .copies: "MiB/s"
    case .idlePeers: "% of a core"
    case .firstCopy, .triggers, .compare, .embedded, .statements: "rows/s"
    }
  }

  /// The pairs of the workload; none if the engines do not matter.
  var pairs: [Pair] {
    switch self {
    case .pgbench: Pair.all.filter { $0.from == .postgres }
    case .statements: Pair.all.filter { $0.from == .sqlite }
    case .triggers, .copies, .copyLatency, .idlePeers, .embedded: []
    default: Pair.all
    }
  }
}
