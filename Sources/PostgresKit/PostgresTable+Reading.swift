import Changes

// What the rows of the catalog mean.
extension PostgresTable {
  /// A condition of SQL: whether the row `c` of pg_class, in the schema `n`, is a table that could be captured.
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
    /// Checked later than with each row: PostgreSQL takes no such index for a replica identity.
    var isDeferrable: Bool
    /// Attribute numbers of its key columns.
    var columns: [Int]
    /// As a table constraint; empty for an index alone.
    var constraint: String
  }

  /// Nil for the document of a table that is not there.
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
    // A primary key by which rows are not told apart is a unique key like others.
    if let primary = indexes.first(where: \.isPrimary).flatMap(places), Set(primary) != Set(schema.key) {
      schema.uniques.append(primary)
    }
    schema.foreignKeys = document[.foreignKey].compactMap(foreignKey)
    schema.objects = document[.object].map { .init(name: $0[0] ?? "", text: $0[1] ?? "") }
    if isPartitioned { readPartitions(document[.partition]) }
    if schema.columns.isEmpty {
      refusal = .init(reason: "it has no column that could be captured", mend: "", isHarmless: true)
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
    readForms(document)
    schema.createText = TableScript(table: self, document: document, constraints: indexes.map(\.constraint)).text
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

  /// Which column of the schema has this number in the catalog.
  private func place(_ number: Int) -> Int? { details.firstIndex { $0.number == number } }

  /// The columns of an index; nil if one of them is generated, whose values the log does not have.
  private func places(of index: Index) -> [Int]? {
    let places = index.columns.compactMap(place)
    return places.count == index.columns.count ? places : nil
  }

  /// The replica identity: by which columns an update or delete names its row.
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
      reason: reason, mend: "ALTER TABLE \(schema.qualifiedName) REPLICA IDENTITY FULL", isHarmless: false)
  }

  private func foreignKey(_ row: [String?]) -> TableSchema.ForeignKey? {
    let actions = ["a": "NO ACTION", "r": "RESTRICT", "c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT"]
    let columns = (row[0] ?? "").split(separator: " ").compactMap { Int($0).flatMap(place) }
    guard !columns.isEmpty else { return nil }
    return .init(
      columns: columns, namespace: row[1] ?? "", table: row[2] ?? "",
      references: (row[3] ?? "").split(separator: "\u{1f}").map(String.init),
      onUpdate: actions[row[4] ?? ""] ?? "NO ACTION", onDelete: actions[row[5] ?? ""] ?? "NO ACTION",
      timing: row[6] == "true" ? .deferred : row[7] == "true" ? .deferrable : .immediate)
  }

  /// Updates of a partition need an identity of its own.
  private mutating func readPartitions(_ leaves: [[String?]]) {
    schema.flags.insert(.partitioned)
    partitions = leaves.map { $0[0] ?? $0[2] ?? "" }
    if let leaf = leaves.first(where: { $0[3] == "false" }) {
      let name = "\((leaf[1] ?? "").quotedName).\((leaf[2] ?? "").quotedName)"
      refusal = .init(
        reason:
          "its partition \(leaf[2] ?? "") has no replica identity, so PostgreSQL would refuse the program's own UPDATE and DELETE",
        mend: "ALTER TABLE \(name) REPLICA IDENTITY FULL", isHarmless: false)
    }
  }

  /// The key in ``forms`` of a generated column, by its number in the catalog.
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
