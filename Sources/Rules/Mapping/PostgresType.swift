import Changes

/// A type of PostgreSQL, with the facts that decide which values it accepts.
///
///     PostgresType("numeric(10,2)").kind   // .numeric(.init(precision: 10, scale: 2))
package struct PostgresType: Hashable, Sendable {
  package enum Kind: Hashable, Sendable {
    case bool, int2, int4, int8, oid
    /// A `numeric` with these digits; nil for any number of digits.
    case numeric(Digits?)
    case float4, float8
    case text
    /// A `character varying` with this maximum number of characters; nil for no limit.
    case varchar(Int?)
    case bpchar(Int?)
    case bytea
    case date
    /// A `time` with this number of digits of fractional seconds.
    case time(Int)
    case timetz(Int)
    case timestamp(Int)
    case timestamptz(Int)
    /// An `interval` with this number of digits of fractional seconds.
    case interval(Int)
    case bit(Int)
    case varbit(Int?)
    case uuid, json, jsonb, xml, money, inet
    case array, range, enumeration, record
    case other
  }

  package struct Digits: Hashable, Sendable {
    package let precision: Int
    package let scale: Int
    package init(precision: Int, scale: Int) { (self.precision, self.scale) = (precision, scale) }
  }

  /// The name of the type, from `format_type()`.
  @ByBytes package private(set) var name: String
  /// The kind of the type; for a domain, the kind of its base type.
  package let kind: Kind
  package let isDomain: Bool
  /// The name of the element type, if the type is an array of a built-in type, or a domain over such an array.
  @ByBytes private var elementName: String?

  /// The type of an array's elements; nil for user-defined elements.
  var element: PostgresType? { elementName.map { PostgresType($0) } }

  /// Creates a type from its name.
  /// - Parameter base: The ``TableSchema/Column/baseType`` of a column of this type; empty for a built-in type.
  package init(_ name: String, base: String = "") {
    self.name = name
    let array = name.hasSuffix("[]") ? name : base
    elementName = array.hasSuffix("[]") ? String(array.dropLast(2)) : nil
    isDomain = !base.isEmpty && !Self.constructors.contains(base) && !name.hasSuffix("[]")
    if name.hasSuffix("[]") {
      kind = .array
    } else {
      switch base {
      case "": kind = Self.builtIn(name)
      case "enum": kind = .enumeration
      case "record": kind = .record
      case "range", "multirange": kind = .range
      case "array": kind = .array
      default: kind = base.hasSuffix("[]") ? .array : Self.builtIn(base)
      }
    }
  }

  /// Creates the type of a column of a PostgreSQL table.
  package init(_ column: TableSchema.Column) { self.init(column.declaredType, base: column.baseType) }

  package static let text = PostgresType("text")

  private static let constructors: Set<NameKey> = ["enum", "record", "range", "multirange", "array"]

  /// Whether the type sorts by a collation.
  package var isCollatable: Bool {
    switch kind {
    case .text, .varchar, .bpchar: true
    default: false
    }
  }

  /// Whether the type may lack `=`, so that values are compared as texts.
  package var comparesAsText: Bool {
    switch kind {
    case .json, .xml, .other, .array, .record, .range: true
    default: false
    }
  }

  package var isText: Bool {
    switch kind {
    case .text, .varchar: true
    default: false
    }
  }

  /// Whether SQLite sorts the stored values of this type as PostgreSQL does, with collation `C` for text.
  package var keepsOrderInSQLite: Bool {
    switch kind {
    case .bool, .int2, .int4, .int8, .oid, .float4, .float8, .text, .varchar, .bytea, .uuid: true
    default: false
    }
  }

  /// Returns whether an existing SQLite column with this affinity stores values of this type unchanged, or as equal
  /// numbers.
  package func isKept(under affinity: String) -> Bool {
    switch kind {
    case .bytea: true
    case .bool, .int2, .int4, .int8, .oid: ["INTEGER", "NUMERIC", "BLOB"].contains(affinity)
    case .float4, .float8: ["REAL", "BLOB"].contains(affinity)
    case .numeric(let digits?) where digits.precision <= 15 && (0...digits.precision).contains(digits.scale): true
    // None of their texts looks like a number, which a numeric affinity would convert.
    case .date, .time, .timetz, .timestamp, .timestamptz, .interval, .uuid, .array, .range: true
    default: ["TEXT", "BLOB"].contains(affinity)
    }
  }

  /// Returns whether this type sorts the values of an SQLite column as SQLite does. PostgreSQL sorts with collation
  /// `C`, with `lower()` for NOCASE, and with `rtrim()` for RTRIM.
  package func keepsOrder(of column: TableSchema.Column) -> Bool {
    switch kind {
    case .int2, .int4, .int8, .oid, .numeric, .float4, .float8, .bytea: true
    case .text, .varchar:
      column.affinity == "TEXT" && ["", "BINARY", "NOCASE", "RTRIM"].contains(column.collation.asciiUppercased)
    default: false
    }
  }

  /// Whether the type is not part of PostgreSQL, so that it must exist before a column of this type.
  package var isUserDefined: Bool {
    isDomain || kind == .enumeration || kind == .record || name.has(".")
  }

  private static func builtIn(_ name: String) -> Kind {
    let (word, numbers) = parts(name)
    // A trail may contain any number: a size that no server accepts gives an unknown type.
    func sized(_ range: ClosedRange<Int>, _ make: (Int?) -> Kind) -> Kind {
      numbers.first.map(range.contains) ?? true ? make(numbers.first) : .other
    }
    func seconds(_ make: (Int) -> Kind) -> Kind { sized(0...6) { make($0 ?? 6) } }
    let charactersMax = 10_485_760
    switch word {
    case "boolean": return .bool
    case "smallint": return .int2
    case "integer": return .int4
    case "bigint": return .int8
    case "oid": return .oid
    case "numeric":
      let scale = numbers.count > 1 ? numbers[1] : 0
      guard (-1000...1000).contains(scale) else { return .other }
      return sized(1...1000) { .numeric($0.map { Digits(precision: $0, scale: scale) }) }
    case "real": return .float4
    case "double precision": return .float8
    case "text", "name": return .text
    case "character varying": return sized(1...charactersMax, Kind.varchar)
    case "character", "bpchar": return sized(1...charactersMax, Kind.bpchar)
    case "bytea": return .bytea
    case "date": return .date
    case "time without time zone", "time": return seconds(Kind.time)
    case "time with time zone": return seconds(Kind.timetz)
    case "timestamp without time zone", "timestamp": return seconds(Kind.timestamp)
    case "timestamp with time zone": return seconds(Kind.timestamptz)
    case "uuid": return .uuid
    case "json": return .json
    case "jsonb": return .jsonb
    case "xml": return .xml
    case "money": return .money
    case "bit": return sized(1...8 * charactersMax) { .bit($0 ?? 1) }
    case "bit varying": return sized(1...8 * charactersMax, Kind.varbit)
    case "inet", "cidr": return .inet
    case "int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange", "int4multirange",
      "int8multirange", "nummultirange", "tsmultirange", "tstzmultirange", "datemultirange":
      return .range
    default: return word.hasPrefix("interval") ? seconds(Kind.interval) : .other
    }
  }

  /// Splits a type into word and numbers: `timestamp(3) without time zone` into `timestamp without time zone` and [3].
  private static func parts(_ name: String) -> (word: String, numbers: [Int]) {
    guard let open = name.firstIndex(of: "("), let close = name[open...].firstIndex(of: ")") else { return (name, []) }
    let numbers = name[name.index(after: open)..<close].split(separator: ",").compactMap { part in
      Int(part.filter { $0 != " " })
    }
    return (String(name[..<open]) + String(name[name.index(after: close)...]), numbers)
  }
}

extension TableSchema.Column {
  /// The type of the column in PostgreSQL; for a domain its base type. A cast to the base type runs no CHECK of the
  /// domain.
  package var undomainedType: String { PostgresType(self).isDomain ? baseType : declaredType }
}
