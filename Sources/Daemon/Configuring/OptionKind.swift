import Conflicts
import Mapping

/// The type of an option's value.
package enum OptionKind: Equatable, Sendable {
  case name
  case database
  case trail
  case url
  /// An absolute path of at most `bytesMax` bytes.
  case path(bytesMax: Int)
  case account
  case address
  case flag
  case count(ClosedRange<Int>)
  case duration(ClosedRange<Duration>)
  case size
  /// A duration, a size, or a list of one of each.
  case history
  /// A number of bytes per second; with `mayBeOff`, also the word "off".
  case rate(mayBeOff: Bool)
  /// One of the listed words. The words in `later` are reserved for later versions of Cairn, and refused.
  case choice([String], later: [String])
  case patterns
  /// One name or pattern of trails, or a list of them.
  case trails
  case peerURL
  case host
  /// A list of names of [peer.NAME].
  case peers
  case files
  /// The grants of a peer, `{ push = […], pull = […] }`.
  case grants
  case misfits
  /// The name of a table; with `isPattern`, also a pattern.
  case table(isPattern: Bool)
  case sql
  case columns
  case delete
  case origin
  case rule
  /// The conflict rules of columns, as a TOML table from column names to rules.
  case rules
  /// The value of a reserved option, which is never accepted.
  case anything

  /// The valid values in words, for messages.
  package var description: String {
    switch self {
    case .name: "a name: a-z, 0-9, _ and -"
    case .database: "the name of a [database.NAME]"
    case .trail: "the name of a trail, NODE.NAME"
    case .url: "a URL: sqlite:///PATH or postgresql://USER@HOST/DB"
    case .path: "an absolute path"
    case .account: "the name of a group of this system"
    case .address: "an IP address or localhost, a colon and a port"
    case .flag: "true or false"
    case .count(let range): "an integer from \(range.lowerBound) to \(range.upperBound)"
    case .duration(let range):
      "a duration (\(Self.durationUnits)) from \(Self.text(range.lowerBound)) to \(Self.text(range.upperBound))"
    case .size: "a size (\(Self.byteUnits)), 64 MiB at least"
    case .history: "a duration (60 s at least), a size (64 MiB at least), or a list of both"
    case .rate(let mayBeOff): "a rate, such as 10MiB/s" + (mayBeOff ? ", or off" : "")
    case .choice(let words, _): words.count == 1 ? words[0] : "one of \(words.joined(separator: ", "))"
    case .patterns: "a list of patterns of tables, with * and ?, ! before one that excludes"
    case .trails: "a trail, NODE.NAME, or a list of patterns of trails, with * and ?, ! before one that excludes"
    case .peerURL: "https://HOST:PORT, or http:// where insecure allows it"
    case .host: "the name in a certificate: a-z, 0-9, ., _ and -"
    case .peers: "a list of names of [peer.NAME]"
    case .files: "{ certificate = PATH, key = PATH, peers = PATH }"
    case .grants: "{ push = [PATTERNS], pull = [PATTERNS] } of trails"
    case .misfits: "a list of policies: stop, null or widen, for a column as table.column=null"
    case .table(let isPattern):
      isPattern
        ? "the name of a table, with its schema where it has one, or a pattern with * and ?"
        : "the name of a table, with its schema where it has one"
    case .sql: "an expression in SQLite's SQL"
    case .columns: "a table of columns and expressions"
    case .delete: "apply, keep or mark:COLUMN"
    case .origin: "the name of a node, or of a trail, NODE.NAME"
    case .rule: "a rule: \(ConflictRules.Rule.rowNames.joined(separator: ", "))"
    case .rules: "a table of columns and rules: \(ConflictRules.Rule.columnNames.joined(separator: ", "))"
    case .anything: "nothing in this version"
    }
  }

  static var durationUnits: String { Quantity.durationUnits.map(\.name).joined(separator: ", ") }
  static var byteUnits: String { Quantity.byteUnits.map(\.name).joined(separator: ", ") }

  static func text(_ duration: Duration) -> String {
    let milliseconds =
      Double(duration.components.seconds) * 1000 + Double(duration.components.attoseconds / 1_000_000_000_000_000)
    let unit = Quantity.durationUnits.dropLast().last {
      milliseconds.remainder(dividingBy: $0.milliseconds) == 0 && milliseconds >= $0.milliseconds
    }
    guard let unit else { return "0 s" }
    return "\(Int(milliseconds / unit.milliseconds)) \(unit.name)"
  }
}

/// The value of an option, in its Swift type.
enum OptionValue: Equatable, Sendable {
  case text(String)
  case flag(Bool)
  case count(Int)
  case duration(Duration)
  case bytes(Int64)
  case history(Configuration.History)
  case list([String])
  case columns([TableRule.Column])
  case files(Configuration.PeerFiles)
  case grants(push: [String], pull: [String])
  case rules([ColumnRule])
}
