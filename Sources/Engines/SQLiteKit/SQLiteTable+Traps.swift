import Changes
import SystemKit

/// Finds properties of tables that affect which values triggers read, or whether Cairn's statements can use the table.
extension Database {
  /// Sets ``SQLiteTable/givesWrongOld`` of each table whose AFTER triggers get wrong values of OLD.
  ///
  /// SQLite 3.40.1 converts a value of OLD to the type of a foreign key's column that references the value. For an
  /// INTEGER column, the text '01234' becomes 1234.
  static func markWrongOld(_ tables: inout [SQLiteTable]) {
    let places = Dictionary(
      tables.enumerated().map { ($1.name.sqliteKey, $0) }, uniquingKeysWith: { first, _ in first })
    var parents: [Int: Parent] = [:]
    for child in tables {
      Pulse.beat()
      for key in child.schema.foreignKeys {
        guard let place = places[key.table.sqliteKey], !tables[place].givesWrongOld else { continue }
        let parent = parents[place] ?? Parent(tables[place])
        parents[place] = parent
        tables[place].givesWrongOld = parent.isMistyped(by: key, of: child.schema)
      }
    }
  }

  /// A table to which foreign keys refer, with its columns by name.
  private struct Parent {
    private static let untyped: Set = ["TEXT", "BLOB"]

    private let isUntyped: [Bool]
    private let primary: [Int]
    private let places: [NameKey: Int]
    private let hasUntyped: Bool

    init(_ table: SQLiteTable) {
      isUntyped = table.schema.columns.map { Self.untyped.contains($0.affinity) }
      (primary, places) = (table.primaryColumns, table.schema.columnPlaces)
      hasUntyped = isUntyped.contains(true)
    }

    func isMistyped(by key: TableSchema.ForeignKey, of child: TableSchema) -> Bool {
      let referenced = key.references.isEmpty ? primary : key.references.compactMap { places[$0.sqliteKey] }
      // If a generated column takes part, or the key is broken, any column of the table may be the referenced one.
      guard referenced.count == key.columns.count else { return hasUntyped }
      return zip(referenced, key.columns).contains { theirs, column in
        isUntyped[theirs] && !Self.untyped.contains(child.columns[column].affinity)
      }
    }
  }

  /// Sets ``SQLiteTable/mayNestWrites``. The triggers of the application that run while a row is written are the BEFORE
  /// triggers of its table. If REPLACE deletes a row, they are also those of tables that refer to it.
  func markNestedWrites(_ tables: inout [SQLiteTable]) throws {
    let triggers = try query("SELECT tbl_name, name, sql FROM sqlite_master WHERE type = 'trigger'")
      .filter { !$0[1].string.hasPrefix("cairn_") }
      .map { row in
        Pulse.beat()
        return TriggerShape(table: row[0].string, text: row[2].string)
      }
    let referenced = Set(tables.flatMap { $0.schema.foreignKeys.map(\.table.sqliteKey) })
    var names = Set(triggers.filter(\.isBefore).map(\.table))
    if !triggers.isEmpty { names.formUnion(referenced) }
    let writes = TriggerWrites(triggers, tables)
    for index in tables.indices {
      let name = tables[index].name.sqliteKey
      tables[index].mayNestWrites = names.contains(name)
      tables[index].mayWriteBeforeReplace = writes.mayReturn(to: name)
      tables[index].isReferenced = referenced.contains(name)
    }
  }

  /// Sets ``SQLiteTable/refusal`` of tables that need a collation which only the application defines. If only an index
  /// that is not unique needs such a collation, the table is accepted without that index.
  func refuseUnknownCollations(_ tables: inout [SQLiteTable]) {
    // SQLite also lists an undefined collation, once a statement has named it.
    let known: Set = ["BINARY", "NOCASE", "RTRIM"]
    for index in tables.indices where tables[index].refusal == nil {
      if let name = SQLText.collations(tables[index].schema.createText).first(where: {
        !known.contains($0.asciiUppercased)
      }) {
        tables[index].refusal = "it needs the collation \(name.quotedName), which only the application has"
      }
      let unique = Set(tables[index].uniqueKeys.map(\.name.nameKey))
      var kept: [TableSchema.Object] = []
      for object in tables[index].schema.objects {
        Pulse.beat()
        guard let name = SQLText.collations(object.text).first(where: { !known.contains($0.asciiUppercased) }) else {
          kept.append(object)
          continue
        }
        if unique.contains(object.name.nameKey) {
          tables[index].refusal =
            "its unique index \(object.name) needs the collation \(name.quotedName), which only the application has"
        }
      }
      tables[index].schema.objects = kept
    }
  }
}

extension TableSchema {
  /// The places of the columns by their names, as SQLite compares names.
  var columnPlaces: [NameKey: Int] {
    Dictionary(columns.enumerated().map { ($1.name.sqliteKey, $0) }) { first, _ in first }
  }
}
