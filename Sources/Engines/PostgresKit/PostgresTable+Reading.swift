import Changes

// These functions interpret the rows of the catalog.
extension PostgresTable {
  /// Returns an SQL condition that is true for a table of applications. It excludes partitions, temporary tables, and
  /// tables of PostgreSQL, Cairn or an extension.
  ///
  /// `c` and `n` are the aliases of the table's rows of pg_class and pg_namespace.
  package static func isUsers(_ c: String, _ n: String) -> String {
    """
    \(c).relkind IN ('r', 'p', 'f') AND NOT \(c).relispartition AND \(c).relpersistence <> 't'
      AND \(n).nspname NOT IN ('pg_catalog', 'information_schema', 'cairn', 'cairn_ddl') AND \(n).nspname NOT LIKE 'pg\\_%'
      AND NOT EXISTS (SELECT 1 FROM pg_depend AS d WHERE d.classid = 'pg_class'::regclass AND d.objid = \(c).oid
        AND d.deptype = 'e')
    """
  }

  struct Index {
    var isPrimary, isReplicaIdentity, isPlain: Bool
    /// Whether the index belongs to a DEFERRABLE constraint, which PostgreSQL does not accept as replica identity.
    var isDeferrable: Bool
    /// The numbers of the index's key columns in the catalog.
    var columns: [Int]
    /// The index as a table constraint in SQL; empty for an index without a constraint.
    var constraint: String
  }

  /// Reads a table from its catalog rows; nil if the table does not exist.
  package init?(_ document: CatalogDocument) throws {
    guard let row = document[.table].first else { return nil }
    func text(_ index: Int) -> String { index < row.count ? row[index] ?? "" : "" }
    self.init(
      oid: UInt32(text(0)) ?? 0,
      schema: TableSchema(epoch: 0, engine: .postgres, namespace: text(1), name: text(2), columns: []),
      isPartitioned: text(3) == "p", estimatedRows: UInt64(text(6)) ?? 0, isOwned: text(8) == "true", owner: text(7),
      sequences: document[.sequence].map { ($0[0] ?? "", $0[1] ?? "") })
    readColumns(document[.column])
    let indexes = document[.index].map { row in
      Index(
        isPrimary: row[0] == "true", isReplicaIdentity: row[1] == "true", isPlain: row[2] == "true",
        isDeferrable: row[3] == "true",
        columns: (row[4] ?? "").split(separator: " ").compactMap { Int($0) }, constraint: row[7] ?? "")
    }
    for index in indexes where index.isPlain && !index.isPrimary {
      if let columns = places(of: index) { schema.uniques.append(columns) }
    }
    chooseKey(identity: text(5), indexes)
    // A primary key that does not identify rows is recorded as a unique key.
    if let primary = indexes.first(where: \.isPrimary).flatMap(places), Set(primary) != Set(schema.key) {
      schema.uniques.append(primary)
    }
    schema.foreignKeys = document[.foreignKey].compactMap(foreignKey)
    schema.objects = document[.object].map { .init(name: $0[0] ?? "", text: $0[1] ?? "") }
    if isPartitioned { readPartitions(document[.partition], identity: text(5)) }
    if schema.columns.isEmpty {
      refusal = .init(reason: "it has no column that can be captured", mend: "", isHarmless: true)
    }
    if text(3) == "f" {
      refusal = .init(reason: "it is a foreign table, whose changes are not logged", mend: "", isHarmless: true)
    }
    if text(4) == "u" {
      refusal = .init(
        reason: "it is unlogged, so its changes are not in the WAL",
        mend: "ALTER TABLE \(schema.qualifiedName) SET LOGGED", isHarmless: true)
    }
    if text(9) == "true" {
      refusal = .init(
        reason: "row level security hides rows from this role", mend: "ALTER ROLE \(text(10).quotedName) BYPASSRLS",
        isHarmless: false)
    }
    if let reserved = PostgresTable.reservedName(schema) { refusal = reserved }
    readForms(document)
    schema.createText = TableScript(table: self, document: document, constraints: indexes.map(\.constraint)).text
  }

  /// Returns the refusal of a table whose name no target takes; nil for any other name.
  private static func reservedName(_ schema: TableSchema) -> Refusal? {
    guard ReservedName.isReserved(schema.namespace, schema.name) else { return nil }
    let isOfSchema = ReservedName.isReserved(schema.namespace, "t")
    return Refusal(
      reason:
        "its \(isOfSchema ? "schema has a name" : "name is one") of those that are reserved for Cairn and database engines",
      mend: isOfSchema
        ? "ALTER SCHEMA \(schema.namespace.quotedName) RENAME TO ..."
        : "ALTER TABLE \(schema.qualifiedName) RENAME TO ...", isHarmless: true)
  }

  private mutating func readColumns(_ rows: [[String?]]) {
    for row in rows where (row[4] ?? "").isEmpty {
      details.append(
        .init(
          type: UInt32(row[5] ?? "") ?? 0, modifier: Int32(row[6] ?? "") ?? -1, number: Int(row[0] ?? "") ?? 0,
          missing: row[11], mayHaveDefault: row[12] == "true" || row[13] == "true"))
      schema.columns.append(
        .init(
          name: row[1] ?? "", declaredType: row[2] ?? "", isNotNull: row[3] == "true", collation: row[7] ?? "",
          defaultText: row[8], baseType: row[9] ?? "",
          identity: row[10] == "a" ? .always : row[10] == "d" ? .byDefault : .none))
    }
  }

  // The index in `schema.columns` of the column with this catalog number.
  private func place(_ number: Int) -> Int? { details.firstIndex { $0.number == number } }

  // Nil if a column is generated, because the log lacks its values.
  private func places(of index: Index) -> [Int]? {
    let places = index.columns.compactMap(place)
    return places.count == index.columns.count ? places : nil
  }

  /// Chooses the key: the columns by which an update or delete in the log identifies its row.
  private mutating func chooseKey(identity: String, _ indexes: [Index]) {
    let primary = indexes.first(where: \.isPrimary)
    let given: Index? =
      switch identity {
      case "i": indexes.first(where: \.isReplicaIdentity)
      case "d", "f": primary
      default: nil
      }
    let isUsable = identity == "f" || given?.isDeferrable == false
    if isUsable, let places = given.flatMap(places) {
      for (ordinal, column) in places.enumerated() { schema.columns[column].keyOrdinal = ordinal + 1 }
      return
    }
    schema.flags.insert(.wholeRow)
    guard identity != "f" else { return }
    let refused = "so PostgreSQL would refuse the program's own UPDATE and DELETE if it were captured"
    let reason =
      given == nil
      ? "it has no replica identity (no primary key), \(refused)"
      : isUsable
        ? "a column of its key is generated, and PostgreSQL does not send the values of generated columns"
        : "its key is DEFERRABLE, which PostgreSQL takes for no replica identity, \(refused)"
    refusal = .init(
      reason: reason, mend: "ALTER TABLE \(schema.qualifiedName) REPLICA IDENTITY FULL", isHarmless: false,
      isOfGenerated: given != nil && isUsable)
  }

  private func foreignKey(_ row: [String?]) -> TableSchema.ForeignKey? {
    let actions = ["a": "NO ACTION", "r": "RESTRICT", "c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT"]
    let columns = (row[0] ?? "").split(separator: " ").compactMap { Int($0).flatMap(place) }
    guard !columns.isEmpty, let references = Self.references(row[3] ?? "", columns) else { return nil }
    return .init(
      columns: columns, namespace: row[1] ?? "", table: row[2] ?? "", references: references,
      onUpdate: actions[row[4] ?? ""] ?? "NO ACTION", onDelete: actions[row[5] ?? ""] ?? "NO ACTION",
      timing: row[6] == "true" ? .deferred : row[7] == "true" ? .deferrable : .immediate)
  }

  // U+001F separates the names in the catalog's text. Nil if a name contains it.
  private static func references(_ text: String, _ columns: [Int]) -> [String]? {
    if columns.count == 1 { return [text] }
    let names = text.utf8.split(separator: 0x1f, omittingEmptySubsequences: false)
    return names.count == columns.count ? names.map { String(decoding: $0, as: UTF8.self) } : nil
  }

  // Each partition must log all columns of the table's replica identity, because pgoutput sends NULL for the others. If
  // one does not, ``refusal`` is set.
  private mutating func readPartitions(_ rows: [[String?]], identity: String) {
    schema.flags.insert(.partitioned)
    let leaves = rows.map(Leaf.init)
    partitions = leaves.map(\.file)
    let unlogged = leaves.filter(\.isUnlogged)
    if let first = unlogged.first {
      let others = unlogged.count > 1 ? " (and \(unlogged.count - 1) others like it)" : ""
      refusal = .init(
        reason: "its partition \(first.name)\(others) is UNLOGGED, so PostgreSQL logs none of its changes",
        mend: unlogged.map { "ALTER TABLE \($0.sqlName) SET LOGGED" }.joined(separator: "; "), isHarmless: false,
        isOfPartition: true)
      return
    }
    let wanted = Set(schema.key.map { details[$0].number })
    let isFull = identity == "f" || refusal != nil
    let lacking = leaves.filter { !$0.logs(wanted, isFull: isFull) }
    guard let first = lacking.first(where: { !$0.hasIdentity }) ?? lacking.first else { return }
    let statements = lacking.map { "ALTER TABLE \($0.sqlName) REPLICA IDENTITY FULL" }
    if let refusal {
      self.refusal = .init(
        reason: refusal.reason, mend: ([refusal.mend] + statements).joined(separator: "; "),
        isHarmless: refusal.isHarmless)
      return
    }
    let others = lacking.count > 1 ? " (and \(lacking.count - 1) others like it)" : ""
    let reason =
      first.hasIdentity
      ? "its partition \(first.name)\(others) has another replica identity than the table, so UPDATE and DELETE there would be lost"
      : "its partition \(first.name)\(others) has no replica identity, so PostgreSQL would refuse the program's own UPDATE and DELETE"
    refusal = .init(
      reason: reason, mend: statements.joined(separator: "; "), isHarmless: false, isOfPartition: first.hasIdentity)
  }

  /// A partition that contains rows, and so has no partitions of its own.
  private struct Leaf {
    let file, namespace, name: String
    let hasIdentity: Bool
    // Nil in a document of a version of Cairn that did not read it.
    let identity: String?
    /// The columns of an old row that PostgreSQL logs, by their numbers in the partitioned table.
    let columns: Set<Int>
    let isUnlogged: Bool

    init(_ row: [String?]) {
      func text(_ index: Int) -> String { index < row.count ? row[index] ?? "" : "" }
      (file, namespace, name) = (text(0).isEmpty ? text(2) : text(0), text(1), text(2))
      hasIdentity = text(3) != "false"
      identity = row.count > 4 ? text(4) : nil
      columns = Set(text(5).split(separator: " ").compactMap { Int($0) })
      isUnlogged = text(6) == "u"
    }

    var sqlName: String { "\(namespace.quotedName).\(name.quotedName)" }

    func logs(_ wanted: Set<Int>, isFull: Bool) -> Bool {
      guard hasIdentity else { return false }
      guard let identity, identity != "f" else { return true }
      return !isFull && wanted.isSubset(of: columns)
    }
  }

  /// Returns the dictionary key of a generated column's expression. `number` is the column's number in the catalog.
  package static func generatedForm(_ number: Int) -> String { "generated \(number)" }

  private mutating func readForms(_ document: CatalogDocument) {
    for column in document[.column] where !(column[4] ?? "").isEmpty {
      forms[Self.generatedForm(Int(column[0] ?? "") ?? 0)] = column[8] ?? ""
    }
    for label in document[.label] { forms["label \(label[1] ?? "")"] = label[2] ?? "" }
    for part in document[.attribute] {
      forms["type \(part[0] ?? "")", default: ""] += "\(part[1] ?? "") \(part[4] ?? "") \(part[5] ?? ""),"
    }
  }
}
