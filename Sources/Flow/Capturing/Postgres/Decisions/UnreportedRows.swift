import Changes

/// Rows that a transaction may have changed although the stream has no record of it.
enum UnreportedRows: Equatable {
  case table(UInt32)
  /// The rows of a table with these keys.
  case rows(UInt32, [[String]])

  static func == (a: Self, b: Self) -> Bool {
    switch (a, b) {
    case (.table(let a), .table(let b)): a == b
    case (.rows(let a, let keys), .rows(let b, let others)): a == b && keys == others
    default: false
    }
  }
}

/// A rewrite of a table's rows by a schema change.
///
/// An `ALTER TABLE` rewrites inheriting tables too, and an `ALTER TYPE` rewrites typed tables. The shapes of these
/// tables do not follow in the stream.
struct TableRewrite: Equatable {
  /// The bit of `reasons` that means that new columns got values.
  static let defaultReason = 2
  /// The bit of `reasons` that means a change of a column's type or values.
  static let columnReason = 4
  /// The bits of `reasons` that leave all values as they are: a change of the persistence or of the access method.
  private static let harmlessReasons = 1 | 8

  /// The reasons: bits of `pg_event_trigger_table_rewrite_reason()`.
  let reasons: Int
  /// Whether the command may have computed new values, or may be another one than that which reports the shape.
  let mayCompute: Bool

  init(reasons: Int, mayCompute: Bool) { (self.reasons, self.mayCompute) = (reasons, mayCompute) }

  /// - Parameter tag: The tag of the command. After a rewrite by `ALTER TYPE`, no shape follows.
  init(reasons: Int, tag: String, mayCompute: Bool) {
    self.init(reasons: reasons, mayCompute: mayCompute || tag != "ALTER TABLE")
  }

  /// Returns this rewrite together with an earlier one that no shape followed.
  func after(_ earlier: Self?) -> Self {
    guard let earlier else { return self }
    return Self(reasons: reasons | earlier.reasons, mayCompute: true)
  }

  var doubted: Self { Self(reasons: reasons, mayCompute: true) }

  var mayAlterRows: Bool { reasons & ~Self.harmlessReasons != 0 }
}

/// The keys of the rows that a transaction wrote to a partitioned table after it had created a partition.
///
/// A `TRUNCATE` of that partition in the same transaction leaves no trace: the stream does not report it, and the
/// partition keeps its file.
struct WrittenKeys: Equatable {
  private(set) var isEmpty = true
  /// Nil if there are too many keys, or if a key is not known.
  @ByBytes private(set) var all: [[String]]? = []
  /// The memory that the keys take, in bytes.
  private(set) var bytes = 0

  /// - Parameter room: The memory that a key may take, in bytes: the tables of a transaction share it.
  mutating func add(_ key: [String]?, room: Int) {
    isEmpty = false
    let size = key?.reduce(64) { $0 + $1.utf8.count } ?? 0
    guard let key, let count = all?.count, count < PostgresRequests.keysMax, size <= room else {
      return (all, bytes) = (nil, 0)
    }
    bytes += size
    all?.append(key)
  }
}
