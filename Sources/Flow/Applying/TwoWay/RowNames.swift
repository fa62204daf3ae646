import Changes
import Mapping
import Versions

/// Computes the names by which the version window finds the versions of a row. A row has the same name in every trail.
final class RowNames {
  private final class Naming {
    private(set) var schema: TableSchema
    let begun: RowNaming
    let copied: RowNaming
    /// For each column: whether its values are numbers that a PostgreSQL trail has as exact texts.
    private let areNumbers: [Bool]
    /// For each column: whether it is a PostgreSQL `char(n)`, whose values are padded with spaces.
    private let arePadded: [Bool]
    let key: [Int]
    /// The sets of unique columns, except the key, to which foreign keys refer. Each set gives the row a further name.
    let alternates: [Part]
    let references: [Reference]
    /// The number of leading columns of a row image that must be read to get the whole key.
    let width: Int

    /// A recipe for a row name: the table, and the columns whose values identify the row.
    struct Part {
      let begun: RowNaming
      let columns: [Int]

      /// Returns the name of a row from its values in these columns. Nil if one of them is NULL or missing.
      func name(_ value: (Int) -> ColumnView) -> RowName? {
        var row = begun
        for index in columns {
          let value = value(index)
          if value.isNull || value.isUnchanged { return nil }
          row.add(value)
        }
        return row.name
      }

      func isLoose(_ value: (Int) -> ColumnView, _ naming: Naming) -> Bool {
        columns.contains { index in
          guard case .text(let bytes) = naming.keyView(index, value(index)) else { return false }
          return RowNaming.isLoose(bytes)
        }
      }

      func key(_ value: (Int) -> ColumnView, _ naming: Naming) -> [Value] {
        columns.map { naming.keyValue($0, value($0).value ?? .null) }
      }

      func name(of values: [Value?], _ naming: Naming) -> RowName? {
        var row = begun
        for index in columns {
          guard index < values.count, let value = values[index], value != .null else { return nil }
          naming.withPlain(index, value) { row.add($0) }
        }
        return row.name
      }
    }

    /// A foreign key of the table. `isOwn`: it refers to its own table. `isOfDatabase`: the target has it, not only the
    /// source.
    typealias Reference = (parent: Part, isByKey: Bool, isOwn: Bool, isOfDatabase: Bool, table: TableSchema)

    init(_ schema: TableSchema, as target: String, _ key: [Int], alternates: [Part], references: [Reference]) {
      (begun, copied) = (RowNaming(table: target), RowNaming(table: RowNames.copied(target)))
      (self.schema, self.key, self.alternates, self.references) = (schema, key, alternates, references)
      areNumbers = schema.columns.map { column in
        switch PostgresType(column).kind {
        case .int2, .int4, .int8, .oid, .numeric, .float4, .float8: schema.engine == .postgres
        default: false
        }
      }
      arePadded = schema.columns.map { column in
        if case .bpchar = PostgresType(column).kind { schema.engine == .postgres } else { false }
      }
      width = (key.max() ?? -1) + 1
    }

    /// Returns whether this object computes the names of rows of tables with the schema `other`.
    func isOf(_ other: TableSchema) -> Bool {
      if isSame(other) { return true }
      guard schema == other else { return false }
      schema = other
      return true
    }

    func plain(_ index: Int, _ view: ColumnView) -> ColumnView {
      guard arePadded[index] else { return view }
      return switch view {
      case .text(let bytes), .exact(let bytes): .text(bytes.withoutPadding)
      default: view
      }
    }

    func withPlain(_ index: Int, _ value: Value, _ body: (ColumnView) -> Void) {
      value.withView { body(plain(index, $0)) }
    }

    func keyView(_ index: Int, _ view: ColumnView) -> ColumnView {
      if case .exact(let bytes) = view, !areNumbers[index] { return .text(bytes) }
      return view
    }

    /// Returns a key value in the form in which keys are compared: texts by their bytes, numbers by their values.
    func keyValue(_ index: Int, _ value: Value) -> Value {
      switch value {
      case .text(let bytes) where arePadded[index], .exact(let bytes) where arePadded[index]:
        return .text(bytes.withUnsafeBytes { Array($0.withoutPadding) })
      case .exact(let bytes) where !areNumbers[index]: return .text(bytes)
      default: return value
      }
    }

    private func isSame(_ other: TableSchema) -> Bool {
      Self.isSame(schema.columns, other.columns) && Self.isSame(schema.foreignKeys, other.foreignKeys)
        && schema.flags == other.flags && schema.name.hasSameBytes(as: other.name)
        && schema.namespace.hasSameBytes(as: other.namespace)
        && schema.engine == other.engine
    }

    private static func isSame<T>(_ a: [T], _ b: [T]) -> Bool {
      // A key path here would be created again for every row.
      a.withUnsafeBufferPointer { $0.baseAddress } == b.withUnsafeBufferPointer { $0.baseAddress }
    }
  }

  /// The unique columns, except keys, to which foreign keys of the target refer.
  var alternates: Alternates = [:] {
    didSet {
      guard alternates != oldValue else { return }
      (known, last) = ([:], nil)
    }
  }

  var ownKeys: Set<OwnKey> = [] {
    didSet {
      guard ownKeys != oldValue else { return }
      (known, last) = ([:], nil)
    }
  }

  /// For tables whose names differ only in case: the table whose rows the version window lists.
  var holders = TableHolders() {
    didSet { if holders != oldValue { (known, last) = ([:], nil) } }
  }

  /// The first names of renamed tables, which all apply workers of one database share.
  var roots = TableRoots()
  private var rootsCount = 0

  private let engine: Engine
  private let names: NamePolicy
  private var known: [NameKey: Naming] = [:]
  private var last: Naming?
  private var before: [ColumnView] = []
  private var after: [ColumnView] = []

  init(to engine: Engine, _ names: NamePolicy) { (self.engine, self.names) = (engine, names) }

  /// An empty list of renames and drops for this database.
  var columnsNow: ColumnsNow { ColumnsNow(engine: engine, names: names) }

  /// Returns the names of the rows that a change touches; empty if the row has no key.
  ///
  /// If the change gives the row another key, returns two names, the old one first.
  func names(_ schema: TableSchema, _ change: ChangeView) throws -> ChangedRows {
    guard change.operation != .truncate else { return [] }
    let naming = naming(of: schema)
    guard !naming.key.isEmpty else { return [] }
    before.removeAll(keepingCapacity: true)
    after.removeAll(keepingCapacity: true)
    if let image = change.before { try read(image, naming, naming.width, into: &before) }
    if let image = change.after { try read(image, naming, naming.width, into: &after) }
    switch change.operation {
    case .insert: return ChangedRows(name(naming) { after[$0] })
    case .delete: return ChangedRows(name(naming) { before[$0] }?.ended())
    default:
      let old = name(naming) { $0 < before.count && !before[$0].isUnchanged ? before[$0] : after[$0] }
      let new = name(naming) { after[$0].isUnchanged && $0 < before.count ? before[$0] : after[$0] }
      return old != new || movesText(naming) ? ChangedRows(old?.ended(), new) : ChangedRows(old)
    }
  }

  private func movesText(_ naming: Naming) -> Bool {
    naming.key.contains { index in
      guard index < before.count, case .text(let old) = naming.keyView(index, before[index]),
        case .text(let new) = naming.keyView(index, after[index])
      else { return false }
      return !old.elementsEqual(new)
    }
  }

  /// Returns the names of the rows that a change touches, each with the row's key as in the trail.
  func keyed(_ schema: TableSchema, _ change: ChangeView) throws -> [KeyedRow] {
    let rows = try names(schema, change)
    let naming = naming(of: schema)
    return rows.enumerated().map { place, name in
      let isOld = change.operation == .delete || (place == 0 && rows.count == 2)
      let key = naming.key.map { index in
        let isBefore = index < before.count && (isOld && !before[index].isUnchanged || after.count <= index)
        let view = isBefore || (after[index].isUnchanged && index < before.count) ? before[index] : after[index]
        return naming.keyValue(index, view.value ?? .null)
      }
      return KeyedRow(name, key)
    }
  }

  /// Returns the name and key of a row, given as values; nil if it has no key.
  func keyed(_ schema: TableSchema, _ row: [Value]) -> KeyedRow? {
    guard let name = name(schema, row) else { return nil }
    let naming = naming(of: schema)
    return KeyedRow(name, naming.key.map { naming.keyValue($0, row[$0]) })
  }

  /// Returns the name and key of a row of a refresh, given as an image; nil if it has no key.
  func keyed(_ schema: TableSchema, _ image: ImageView) throws -> KeyedRow? {
    guard let name = try name(schema, image) else { return nil }
    let naming = naming(of: schema)
    return KeyedRow(name, naming.key.map { naming.keyValue($0, after[$0].value ?? .null) })
  }

  func key(of version: StoredVersion) -> [Value] {
    let naming = naming(of: version.schema)
    return naming.key.map { index in
      naming.keyValue(index, (version.after.flatMap { $0[index] } ?? version.before.flatMap { $0[index] }) ?? .null)
    }
  }

  /// Returns whether a change touches the row `parent`, to which a foreign key refers by other columns than its key.
  func isAlternate(_ parent: Parent, _ schema: TableSchema, _ change: ChangeView) throws -> Bool {
    let naming = naming(of: schema)
    guard change.operation != .truncate, !naming.alternates.isEmpty else { return false }
    try readWhole(change, naming)
    func isIt(_ part: Naming.Part, _ value: (Int) -> ColumnView) -> Bool {
      guard part.name(value) == parent.name else { return false }
      return zip(part.columns, parent.key).allSatisfy {
        naming.keyValue($0, value($0).value ?? .null).isSameKey(as: $1)
      }
    }
    return naming.alternates.contains { part in
      (change.before != nil && isIt(part) { before[$0] }) || (change.after != nil && isIt(part, left))
    }
  }

  /// Returns the rows that a row references after a change, except the row itself.
  ///
  /// - Parameter admitted: The rows that the change's trail may write; nil: all. A foreign key to other rows counts
  ///   only if the target has it too.
  /// - Parameter withKeys: Whether the result includes the values of the referenced columns.
  func parents(
    _ schema: TableSchema, _ change: ChangeView, from admitted: AdmittedRows?, withKeys: Bool = false
  ) throws -> [Parent] {
    let naming = naming(of: schema)
    guard change.after != nil, !naming.references.isEmpty else { return [] }
    try readWhole(change, naming)
    return naming.references.compactMap { reference in
      guard Self.counts(reference, admitted), let parent = reference.parent.name(left) else { return nil }
      if reference.isOwn, parent == name(naming, left) || naming.alternates.contains(where: { $0.name(left) == parent })
      {
        return nil
      }
      return Parent(
        name: parent, isByKey: reference.isByKey, key: withKeys ? reference.parent.key(left, naming) : [],
        isLoose: reference.parent.isLoose(left, naming))
    }
  }

  private static func counts(_ reference: Naming.Reference, _ admitted: AdmittedRows?) -> Bool {
    guard let admitted, !reference.isOfDatabase, !reference.isOwn else { return true }
    return admitted.includes(referenced: reference.table)
  }

  /// Returns the rows that a deleted or moved row referenced; with `withUpdates`, also those that an update left.
  func left(
    _ schema: TableSchema, _ change: ChangeView, from admitted: AdmittedRows?, withKeys: Bool = false,
    withUpdates: Bool = false
  ) throws -> [Parent] {
    let naming = naming(of: schema)
    guard change.before != nil, !naming.references.isEmpty else { return [] }
    let isGone = try change.operation == .delete || names(schema, change).count == 2
    guard isGone || withUpdates else { return [] }
    try readWhole(change, naming)
    return naming.references.compactMap { reference in
      guard Self.counts(reference, admitted) else { return nil }
      return reference.parent.name { before[$0] }.flatMap { name in
        if !isGone, reference.parent.name(left) == name { return nil }
        let key = withKeys ? reference.parent.key({ before[$0] }, naming) : []
        return Parent(name: name, isByKey: reference.isByKey, key: key)
      }
    }
  }

  /// Returns names of a change's rows, by unique columns to which foreign keys refer, with the values of these columns.
  func keyedAlternates(_ schema: TableSchema, _ change: ChangeView) throws -> [KeyedRow] {
    let naming = naming(of: schema)
    guard change.operation != .truncate, !naming.alternates.isEmpty else { return [] }
    try readWhole(change, naming)
    return naming.alternates.flatMap { part in
      func row(_ value: (Int) -> ColumnView) -> KeyedRow? {
        part.name(value).map { KeyedRow($0, part.key(value, naming)) }
      }
      return [change.before == nil ? nil : row { before[$0] }, change.after == nil ? nil : row(left)].compactMap { $0 }
    }
  }

  /// Returns all names that the version window stores for a change: of the changed rows, and of the rows that they
  /// reference or referenced before.
  func namesAndReferences(
    _ schema: TableSchema, _ change: ChangeView, from admitted: AdmittedRows?
  ) throws -> ChangedRows {
    if change.treatment.contains(.copied), let image = change.after { return try ChangedRows(copied(schema, image)) }
    var rows = try names(schema, change)
    for parent in try parents(schema, change, from: admitted) { rows.append(parent.reference) }
    for name in try alternates(schema, change) { rows.append(name) }
    for parent in try left(schema, change, from: admitted) { rows.append(parent.name.leavers) }
    return rows
  }

  private func readWhole(_ change: ChangeView, _ naming: Naming) throws {
    before.removeAll(keepingCapacity: true)
    after.removeAll(keepingCapacity: true)
    if let image = change.before { try read(image, naming, .max, into: &before) }
    if let image = change.after { try read(image, naming, .max, into: &after) }
  }

  private func left(_ index: Int) -> ColumnView {
    after[index].isUnchanged && index < before.count ? before[index] : after[index]
  }

  static func copied(_ table: String) -> String { "\(table) copied" }

  func name(_ schema: TableSchema, _ image: ImageView) throws -> RowName? {
    try name(naming(of: schema), image) { $0.begun }
  }

  /// Returns the name under which the version window lists a row's versions from refreshes; nil if the row has no key.
  func copied(_ schema: TableSchema, _ image: ImageView) throws -> RowName? {
    try name(naming(of: schema), image) { $0.copied }
  }

  private func name(_ naming: Naming, _ image: ImageView, _ begun: (Naming) -> RowNaming) throws -> RowName? {
    guard !naming.key.isEmpty else { return nil }
    after.removeAll(keepingCapacity: true)
    try read(image, naming, naming.width, into: &after)
    return name(naming, begun(naming)) { after[$0] }
  }

  func name(_ schema: TableSchema, _ row: [Value]) -> RowName? { name(naming(of: schema), row) { $0.begun } }

  func copied(_ schema: TableSchema, _ row: [Value]) -> RowName? { name(naming(of: schema), row) { $0.copied } }

  private func name(_ naming: Naming, _ row: [Value], _ begun: (Naming) -> RowNaming) -> RowName? {
    guard !naming.key.isEmpty else { return nil }
    var name = begun(naming)
    for index in naming.key {
      if row[index] == .null { return nil }
      naming.withPlain(index, row[index]) { name.add($0) }
    }
    return name.name
  }

  func parents(_ schema: TableSchema, _ row: [Value?], from admitted: AdmittedRows?) -> [Parent] {
    let naming = naming(of: schema)
    return naming.references.compactMap { reference in
      guard Self.counts(reference, admitted) else { return nil }
      return reference.parent.name(of: row, naming).map { name in
        Parent(
          name: name, isByKey: reference.isByKey,
          key: reference.parent.columns.map { naming.keyValue($0, row[$0] ?? .null) })
      }
    }
  }

  /// Returns a row's names by unique columns to which foreign keys refer, each with the values of these columns.
  func keyedAlternates(_ schema: TableSchema, _ row: [Value?]) -> [KeyedRow] {
    let naming = naming(of: schema)
    return naming.alternates.compactMap { part in
      part.name(of: row, naming).map { KeyedRow($0, part.columns.map { naming.keyValue($0, row[$0] ?? .null) }) }
    }
  }

  /// Returns a row's names by unique columns, other than its key, to which foreign keys refer.
  func alternates(_ schema: TableSchema, _ row: [Value?]) -> [RowName] {
    keyedAlternates(schema, row).map(\.name)
  }

  /// Adds a schema change that renames or creates a table to the list of the first names of tables.
  ///
  /// - Parameter before: The table before the schema change; nil for a new table.
  func learn(_ ddl: DDL, _ before: TableSchema?, _ after: TableSchema) {
    let name = TableMapping.targetName(of: after, in: engine, names: names)
    guard let before else {
      // The new table may have replaced the one of that name, which was dropped.
      if holders.areOther(after, name, roots) { holders.lookAgain() }
      return roots.free(name)
    }
    roots.rename(TableMapping.targetName(of: before, in: engine, names: names), to: name)
  }

  private func naming(of schema: TableSchema) -> Naming {
    let count = roots.count
    if count != rootsCount { (known, last, rootsCount) = ([:], nil, count) }
    // Most changes are of the same table as the change before.
    if let last, last.isOf(schema) { return last }
    if let naming = known[schema.fullName], naming.isOf(schema) {
      last = naming
      return naming
    }
    let target = target(schema)
    let isOther = holders.areOther(schema, TableMapping.targetName(of: schema, in: engine, names: names), roots)
    let keyed = schema.flags.contains(.wholeRow) || isOther ? [] : schema.key
    let naming = Naming(
      schema, as: target,
      keyed.sorted { schema.columns[$0].name.sqliteKey < schema.columns[$1].name.sqliteKey },
      alternates: isOther ? [] : otherKeys(of: target).compactMap { alternate($0, schema) },
      references: isOther ? [] : schema.foreignKeys.compactMap { reference($0, of: schema) })
    known[schema.fullName] = naming
    last = naming
    return naming
  }

  private func target(_ schema: TableSchema) -> String {
    roots.root(of: TableMapping.targetName(of: schema, in: engine, names: names))
  }

  /// Returns the sets of unique columns of a table, besides its key, to which foreign keys refer.
  ///
  /// - Parameter target: The first name of the table, before any rename.
  private func otherKeys(of target: String) -> Set<[NameKey]> {
    let key = target.sqliteKey
    return alternates.first { roots.root(of: $0.key.text).sqliteKey == key }?.value ?? []
  }

  private func begun(_ target: String, _ alternate: [NameKey]) -> RowNaming {
    RowNaming(table: "\(target)(\(alternate.map(\.text).joined(separator: ",")))")
  }

  private func alternate(_ names: [NameKey], _ schema: TableSchema) -> Naming.Part? {
    let columns = names.compactMap { name in schema.columns.firstIndex { $0.name.sqliteKey == name } }
    return columns.count == names.count ? .init(begun: begun(target(schema), names), columns: columns) : nil
  }

  /// Returns a foreign key in the form for computing names of referenced rows; nil if that is not possible.
  private func reference(_ key: TableSchema.ForeignKey, of schema: TableSchema) -> Naming.Reference? {
    guard key.columns.count == 1 || key.columns.count == key.references.count else { return nil }
    var parent = schema
    (parent.namespace, parent.name) = (key.namespace, key.table)
    let (own, target) = (target(schema), target(parent))
    let pairs = zip(key.references.map { $0.sqliteKey }, key.columns).sorted { $0.0 < $1.0 }
    let columns = key.columns.count == 1 ? key.columns : pairs.map(\.1)
    let isByKey = !otherKeys(of: target).contains(pairs.map(\.0))
    func targetName(_ table: TableSchema) -> String { TableMapping.targetName(of: table, in: engine, names: names) }
    let ownKey = OwnKey(targetName(schema), key.columns.map { schema.columns[$0].name }, to: targetName(parent))
    return (
      .init(begun: isByKey ? RowNaming(table: target) : begun(target, pairs.map(\.0)), columns: columns), isByKey,
      own == target, ownKeys.contains(ownKey), parent
    )
  }

  private func name(_ naming: Naming, _ value: (Int) -> ColumnView) -> RowName? { name(naming, naming.begun, value) }

  private func name(_ naming: Naming, _ begun: RowNaming, _ value: (Int) -> ColumnView) -> RowName? {
    var row = begun
    for index in naming.key {
      let column = value(index)
      if column.isNull { return nil }
      row.add(column)
    }
    return row.name
  }

  private func read(_ image: ImageView, _ naming: Naming, _ width: Int, into columns: inout [ColumnView]) throws {
    var reader = ByteReader(image.bytes)
    let width = min(width, naming.schema.columns.count)
    while columns.count < width, !reader.isAtEnd {
      columns.append(naming.plain(columns.count, try reader.readColumn()))
    }
  }
}
