/// The numbers of objects that the script of one table of PostgreSQL creates, with an upper bound for each.
///
/// ```
/// var counts = ScriptCounts()
/// try counts.add(.sequence, atMost: 1)
/// try counts.add(.sequence, atMost: 1)  // throws "the script has more than 1 sequence"
/// ```
struct ScriptCounts {
  enum Kind: String {
    case schema, sequence, type, key, check, label
    case owner = "owner of a sequence"
    case identity = "replica identity"
  }

  static let schemasMax = 8
  static let typesMax = 64
  static let checksMax = 256
  static let labelsMax = 1024
  /// The maximum number of notices that are reported in full. Further notices are only counted.
  static let noticesMax = 32

  private var counts: [Kind: Int] = [:]
  private var schemas: [String] = []
  private var unreported = 0

  /// Counts one more object. Throws if there are more than `most`.
  mutating func add(_ kind: Kind, atMost most: Int) throws(Unparsed) {
    guard counts[kind, default: 0] < most else { throw Unparsed("the script has more than \(most) \(kind.rawValue)") }
    counts[kind, default: 0] += 1
  }

  /// Counts a schema that the script creates. Returns false if the schema was counted before.
  mutating func isFirst(schema: String) throws(Unparsed) -> Bool {
    if schemas.contains(where: { $0.hasSameBytes(as: schema) }) { return false }
    try add(.schema, atMost: Self.schemasMax)
    schemas.append(schema)
    return true
  }

  /// Adds a notice of an object that is left out. After ``noticesMax`` notices, only counts the object.
  mutating func leaveOut(_ notice: String, _ notices: inout [String]) {
    if notices.count < Self.noticesMax { notices.append(notice) } else { unreported += 1 }
  }

  /// Adds a notice with the number of objects that were only counted, if there are any.
  func reportRest(_ notices: inout [String]) {
    if unreported > 0 { notices.append("\(unreported) more objects are left out") }
  }
}
