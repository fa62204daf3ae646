package enum Engine: UInt8, Sendable {
  case sqlite = 1
  case postgres = 2
}

/// The shape of a table at one epoch: the names, order and types of the values in its images.
///
/// Two shapes are equal if all their texts have the same bytes.
package struct TableSchema: Equatable, Sendable {
  package struct Column: Equatable, Sendable {
    package var name: String
    /// The type as declared in the engine's language; may be empty in SQLite.
    package var declaredType: String
    package var isNotNull: Bool
    /// The place in the identity key, from 1; 0 if the column is not part of it.
    package var keyOrdinal: Int
    /// The collation; empty: the engine's default.
    package var collation: String
    package var defaultText: String?
    /// In PostgreSQL the basis of a type that is not built in: the base type of a domain, or `enum`, `record`, `range`,
    /// `multirange`, `array`. Empty for a built-in type.
    package var baseType: String
    package var identity: Identity

    package init(
      name: String, declaredType: String = "", isNotNull: Bool = false, keyOrdinal: Int = 0, collation: String = "",
      defaultText: String? = nil, baseType: String = "", identity: Identity = .none
    ) {
      self.name = name
      self.declaredType = declaredType
      self.isNotNull = isNotNull
      self.keyOrdinal = keyOrdinal
      self.collation = collation
      self.defaultText = defaultText
      self.baseType = baseType
      self.identity = identity
    }

    package static func == (a: Self, b: Self) -> Bool {
      a.isNotNull == b.isNotNull && a.keyOrdinal == b.keyOrdinal && a.identity == b.identity
        && a.name.hasSameBytes(as: b.name) && a.declaredType.hasSameBytes(as: b.declaredType)
        && a.collation.hasSameBytes(as: b.collation) && a.defaultText.hasSameBytes(as: b.defaultText)
        && a.baseType.hasSameBytes(as: b.baseType)
    }
  }

  /// The GENERATED … AS IDENTITY clause of PostgreSQL.
  package enum Identity: UInt8, Sendable {
    case none = 0
    case byDefault = 1
    case always = 2
  }

  package struct ForeignKey: Equatable, Sendable {
    package var columns: [Int]
    /// In PostgreSQL the schema of the referenced table.
    package var namespace: String
    package var table: String
    package var references: [String]
    package var onUpdate: String
    package var onDelete: String
    package var timing: Timing
    package init(
      columns: [Int], namespace: String = "", table: String, references: [String], onUpdate: String, onDelete: String,
      timing: Timing = .immediate
    ) {
      self.columns = columns
      self.namespace = namespace
      self.table = table
      self.references = references
      self.onUpdate = onUpdate
      self.onDelete = onDelete
      self.timing = timing
    }

    package static func == (a: Self, b: Self) -> Bool {
      a.columns == b.columns && a.timing == b.timing && a.onUpdate == b.onUpdate && a.onDelete == b.onDelete
        && a.namespace.hasSameBytes(as: b.namespace) && a.table.hasSameBytes(as: b.table)
        && a.references.hasSameBytes(as: b.references)
    }

    /// The time of the check.
    package enum Timing: UInt8, Sendable {
      case immediate = 0
      case deferrable = 1
      case deferred = 2

      /// The clause of PostgreSQL, with a space before it.
      package var clause: String {
        switch self {
        case .immediate: ""
        case .deferrable: " DEFERRABLE"
        case .deferred: " DEFERRABLE INITIALLY DEFERRED"
        }
      }
    }
  }

  /// An index, with the statement that creates it.
  package struct Object: Equatable, Sendable {
    package var name: String
    package var text: String
    package init(name: String, text: String) {
      self.name = name
      self.text = text
    }

    package static func == (a: Self, b: Self) -> Bool {
      a.name.hasSameBytes(as: b.name) && a.text.hasSameBytes(as: b.text)
    }
  }

  package struct Flags: OptionSet, Sendable {
    package let rawValue: UInt64
    package init(rawValue: UInt64) { self.rawValue = rawValue }
    package static let withoutRowid = Flags(rawValue: 1)
    package static let strict = Flags(rawValue: 2)
    /// The table has no usable key: the whole row is its identity.
    package static let wholeRow = Flags(rawValue: 4)
    /// A key column may hold NULL; rows with NULL are identified by the whole row.
    package static let nullableKey = Flags(rawValue: 8)
    package static let autoincrement = Flags(rawValue: 16)
    /// In PostgreSQL a partitioned table: rows may appear and vanish with partitions, without changes of their own. A
    /// copy follows then.
    package static let partitioned = Flags(rawValue: 32)
  }

  package var epoch: UInt64
  package var engine: Engine
  package var namespace: String
  package var name: String
  package var flags: Flags
  package var columns: [Column]
  package var uniques: [[Int]]
  package var foreignKeys: [ForeignKey]
  /// The statements that create the table in the engine's language, with the types and sequences that it needs.
  package var createText: String
  package var objects: [Object]
  /// The treatment that an apply rule gives the table. No trail holds it.
  package var treatment: TableTreatment?
  private var originals: [TableSchema] = []

  /// The shape of the table in the other engine from which Cairn brought it; nil if the table was created in this
  /// database.
  package var original: TableSchema? {
    get { originals.first }
    set { originals = newValue.map { [$0] } ?? [] }
  }

  package init(
    epoch: UInt64, engine: Engine, namespace: String = "", name: String, flags: Flags = [], columns: [Column],
    uniques: [[Int]] = [], foreignKeys: [ForeignKey] = [], createText: String = "", objects: [Object] = []
  ) {
    self.epoch = epoch
    self.engine = engine
    self.namespace = namespace
    self.name = name
    self.flags = flags
    self.columns = columns
    self.uniques = uniques
    self.foreignKeys = foreignKeys
    self.createText = createText
    self.objects = objects
  }

  package static func == (a: Self, b: Self) -> Bool {
    a.epoch == b.epoch && a.engine == b.engine && a.flags == b.flags && a.name.hasSameBytes(as: b.name)
      && a.namespace.hasSameBytes(as: b.namespace) && a.columns == b.columns && a.uniques == b.uniques
      && a.foreignKeys == b.foreignKeys && a.objects == b.objects && a.createText.hasSameBytes(as: b.createText)
      && a.treatment == b.treatment && a.originals == b.originals
  }

  /// The name for operators: `sales.orders`, `orders`.
  package var fullName: String { namespace.isEmpty ? name : "\(namespace).\(name)" }

  /// The name for look-ups: in lower case, without the schema if that is `public`.
  package var plainName: String { (namespace == "public" ? name : fullName).asciiLowercased }

  /// Indexes of the key columns, in key order; empty if the whole row is the identity.
  package var key: [Int] {
    columns.indices.filter { columns[$0].keyOrdinal > 0 }.sorted { columns[$0].keyOrdinal < columns[$1].keyOrdinal }
  }
}

extension ByteWriter {
  /// Appends the payload of a schema record, after its id.
  package mutating func append(_ schema: TableSchema) {
    appendVarint(schema.epoch)
    append(schema.engine.rawValue)
    appendString(schema.namespace)
    appendString(schema.name)
    appendVarint(schema.flags.rawValue)
    appendVarint(UInt64(schema.columns.count))
    for column in schema.columns {
      appendString(column.name)
      appendString(column.declaredType)
      append((column.isNotNull ? 1 : 0) | (column.defaultText != nil ? 2 : 0))
      appendVarint(UInt64(column.keyOrdinal))
      appendString(column.collation)
      appendString(column.defaultText ?? "")
    }
    appendVarint(UInt64(schema.uniques.count))
    for unique in schema.uniques { append(indexes: unique) }
    appendVarint(UInt64(schema.foreignKeys.count))
    for key in schema.foreignKeys {
      append(indexes: key.columns)
      appendString(key.table)
      appendVarint(UInt64(key.references.count))
      for name in key.references { appendString(name) }
      appendString(key.onUpdate)
      appendString(key.onDelete)
    }
    appendString(schema.createText)
    appendVarint(UInt64(schema.objects.count))
    for object in schema.objects {
      appendString(object.name)
      appendString(object.text)
    }
    for column in schema.columns {
      appendString(column.baseType)
      append(column.identity.rawValue)
    }
    for key in schema.foreignKeys {
      appendString(key.namespace)
      append(key.timing.rawValue)
    }
    append(schema.original == nil ? 0 : 1)
    if let original = schema.original { append(original) }
  }

  private mutating func append(indexes: [Int]) {
    appendVarint(UInt64(indexes.count))
    for index in indexes { appendVarint(UInt64(index)) }
  }
}

extension ByteReader {
  package mutating func readSchema() throws -> TableSchema { try readSchema(isOriginal: false) }

  private mutating func readSchema(isOriginal: Bool) throws -> TableSchema {
    let epoch = try readNumber("epoch")
    let engineAt = offset
    guard let engine = Engine(rawValue: try readByte()) else {
      throw DecodingError(offset: engineAt, problem: "engine is unknown")
    }
    var schema = TableSchema(
      epoch: epoch, engine: engine, namespace: try readString(), name: try readString(),
      flags: .init(rawValue: try readVarint()), columns: [])
    for _ in 0..<(try readCount()) {
      let name = try readString()
      let type = try readString()
      let flags = try readByte()
      let ordinal = Int(clamping: try readNumber("place in the key"))
      let collation = try readString()
      let text = try readString()
      schema.columns.append(
        .init(
          name: name, declaredType: type, isNotNull: flags & 1 != 0, keyOrdinal: ordinal, collation: collation,
          defaultText: flags & 2 != 0 ? text : nil))
    }
    for _ in 0..<(try readCount()) { schema.uniques.append(try readIndexes(below: schema.columns.count)) }
    for _ in 0..<(try readCount()) {
      let columns = try readIndexes(below: schema.columns.count)
      let table = try readString()
      var references: [String] = []
      for _ in 0..<(try readCount()) { references.append(try readString()) }
      schema.foreignKeys.append(
        .init(
          columns: columns, table: table, references: references, onUpdate: try readString(),
          onDelete: try readString()))
    }
    schema.createText = try readString()
    for _ in 0..<(try readCount()) {
      schema.objects.append(.init(name: try readString(), text: try readString()))
    }
    // The fields from here on were added after the first trails were written.
    guard !isAtEnd else { return schema }
    for index in schema.columns.indices {
      schema.columns[index].baseType = try readString()
      let at = offset
      guard let identity = TableSchema.Identity(rawValue: try readByte()) else {
        throw DecodingError(offset: at, problem: "kind of identity column is unknown")
      }
      schema.columns[index].identity = identity
    }
    for index in schema.foreignKeys.indices {
      schema.foreignKeys[index].namespace = try readString()
      let at = offset
      guard let timing = TableSchema.ForeignKey.Timing(rawValue: try readByte()) else {
        throw DecodingError(offset: at, problem: "timing of foreign key is unknown")
      }
      schema.foreignKeys[index].timing = timing
    }
    let at = offset
    if try readByte() == 1 {
      guard !isOriginal else { throw DecodingError(offset: at, problem: "an original has an original") }
      schema.original = try readSchema(isOriginal: true)
    }
    return schema
  }

  private mutating func readIndexes(below limit: Int) throws -> [Int] {
    var indexes: [Int] = []
    for _ in 0..<(try readCount()) {
      let at = offset
      let index = try readVarint()
      guard index < UInt64(limit) else { throw DecodingError(offset: at, problem: "column index \(index) is too high") }
      indexes.append(Int(index))
    }
    return indexes
  }
}
