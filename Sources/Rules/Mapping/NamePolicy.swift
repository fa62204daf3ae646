import Changes

/// The conversion of names between the engines.
package enum NamePolicy: String, Sendable, CaseIterable {
  case fold
  case keep

  /// The maximum length of a name in PostgreSQL, in bytes.
  package static let postgresNameBytesMax = 63

  /// Returns the PostgreSQL name for a table, column or index of SQLite. A name that is too long is cut and ends in a
  /// hash.
  package func postgresName(_ name: String) -> String {
    let whole = self == .fold ? name.asciiLowercased : name
    guard whole.utf8.count > Self.postgresNameBytesMax else { return whole }
    var hash: UInt32 = 0x811c_9dc5
    for byte in whole.utf8 { hash = (hash ^ UInt32(byte)) &* 0x0100_0193 }
    var head = ""
    for letter in whole.unicodeScalars {
      guard head.utf8.count + String(letter).utf8.count <= Self.postgresNameBytesMax - 9 else { break }
      head.unicodeScalars.append(letter)
    }
    return head + "_" + UInt64(hash).hex(8)
  }

  /// Returns the SQLite name for a table or index of PostgreSQL. A schema other than `public` becomes part of the name.
  package static func sqliteName(namespace: String, name: String) -> String {
    namespace.isEmpty || namespace == "public" ? name : "\(namespace)_\(name)"
  }
}

extension String {
  /// The text as a PostgreSQL identifier, quoted if necessary.
  package var postgresIdentifier: String {
    let isPlain =
      utf8.enumerated().allSatisfy { index, byte in
        (0x61...0x7a).contains(byte) || byte == 0x5f || (index > 0 && (0x30...0x39).contains(byte))
      } && !isEmpty && !Self.postgresReserved.contains(self)
    return isPlain ? self : quotedName
  }

  /// Words that cannot be the name of a column or table without quotes.
  ///
  /// Source: https://www.postgresql.org/docs/current/sql-keywords-appendix.html
  private static let postgresReserved = words(
    """
    all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation
    column concurrently constraint create cross current_catalog current_date current_role current_schema current_time
    current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze
    from full grant group having ilike in initially inner intersect into is isnull join lateral leading left like limit
    localtime localtimestamp natural not notnull null offset on only or order outer overlaps placing primary references
    returning right select session_user similar some symmetric system_user table tablesample then to trailing true
    union unique user using variadic verbose when where window with
    between bigint bit boolean char character coalesce dec decimal exists extract float greatest grouping inout int
    integer interval json_array json_arrayagg json_object json_objectagg json_scalar json_serialize least merge_action
    national nchar none normalize nullif numeric out overlay position precision real row setof smallint substring time
    timestamp treat trim values varchar xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse
    xmlpi xmlroot xmlserialize xmltable
    """)

  private static func words(_ text: String) -> Set<NameKey> {
    Set(text.split(whereSeparator: \.isWhitespace).map { NameKey($0) })
  }
}

extension TableSchema {
  /// The name of the table with its schema, as PostgreSQL identifiers.
  package var postgresIdentifier: String {
    (namespace.isEmpty ? "" : namespace.postgresIdentifier + ".") + name.postgresIdentifier
  }
}
