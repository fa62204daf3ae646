import Changes
import Mapping
import Versions

/// The names of the target's rows that a trail's changes touch: every trail that leads to a row gives it the same name.
final class RowNames {
  /// The naming of one shape of a table.
  private final class Naming {
    private(set) var schema: TableSchema
    let begun: RowNaming
    let copied: RowNaming
    /// For each column, whether a trail of PostgreSQL has a number in it: all its values are exact texts there.
    private let areNumbers: [Bool]
    /// For each column, whether a trail of PostgreSQL has texts of `char(n)` in it. Spaces at their end are padding
    /// there, which other nodes do not write.
    private let arePadded: [Bool]
    /// The columns of the key, in the order of their names.
    let key: [Int]
    /// The other unique columns that foreign keys reference.
    let alternates: [Part]
    /// The rows of other tables that the table references, each with the columns by their names there.
    let references: [Reference]
    /// The number of columns up to the last one of the key.
    let width: Int

    /// A name with its table, and the columns that complete it.
    struct Part {
      let begun: RowNaming
      let columns: [Int]

      /// Returns the name; nil if one of the values is NULL or not given.
      func name(_ value: (Int) -> ColumnView) -> RowName? {
        var row = begun
        for index in columns {
          let value = value(index)
          if value.isNull || value.isUnchanged { return nil }
          row.add(value)
        }
        return row.name
      }

      func name(of values: [Value?], _ naming: Naming) -> RowName? {
        var row = begun
        for index in columns {
          guard let value = values[index], value != .null else { return nil }
          naming.withPlain(index, value) { row.add($0) }
        }
        return row.name
      }
    }

    /// - Parameter isOwn: Whether the foreign key leads to rows of the same table.
    typealias Reference = (parent: Part, isByKey: Bool, isOwn: Bool)

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

    /// Returns whether a schema is this shape. Each segment of a trail has equal schemas of its own; the present one is
    /// found at once.
    func isOf(_ other: TableSchema) -> Bool {
      if isSame(other) { return true }
      guard schema == other else { return false }
      schema = other
      return true
    }

    /// Returns a value of a row without padding.
    func plain(_ index: Int, _ view: ColumnView) -> ColumnView {
      guard arePadded[index] else { return view }
      return switch view {
      case .text(let bytes), .exact(let bytes): .text(bytes.withoutPadding)
      default: view
      }
    }

    /// Calls `body` with a value of a row without padding.
    func withPlain(_ index: Int, _ value: Value, _ body: (ColumnView) -> Void) {
      value.withView { body(plain(index, $0)) }
    }

    /// Returns a value of the key as ``keyValue(_:_:)`` does, for a view that has no padding.
    func keyView(_ index: Int, _ view: ColumnView) -> ColumnView {
      if case .exact(let bytes) = view, !areNumbers[index] { return .text(bytes) }
      return view
    }

    /// Returns a value of the key as it distinguishes rows. Texts are equal if their bytes are; numbers are equal if
    /// their values are.
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

  /// A row to which another one refers.
  struct Parent {
    let name: RowName
    /// Whether the row is referenced by its key; false: by other unique columns.
    let isByKey: Bool
    /// The values by which it is referenced, in the order of the parent's columns. Empty unless they were requested.
    var key: [Value] = []
  }

  /// The columns that foreign keys reference and that are not the key, by table. All names are in lower case; those of
  /// columns are sorted.
  typealias Alternates = [NameKey: Set<[NameKey]>]
  /// The alternates of the target.
  var alternates: Alternates = [:] {
    didSet {
      guard alternates != oldValue else { return }
      (known, last) = ([:], nil)
    }
  }

  private let engine: Engine
  private let names: NamePolicy
  private var known: [NameKey: Naming] = [:]
  private var last: Naming?
  private var before: [ColumnView] = []
  private var after: [ColumnView] = []

  init(to engine: Engine, _ names: NamePolicy) { (self.engine, self.names) = (engine, names) }

  /// The columns of rows, under the same names of tables and columns.
  var columnsNow: ColumnsNow { ColumnsNow(engine: engine, names: names) }

  /// Returns the names of the rows that a change touches. None if the row has no key or NULL in it. Two if the change
  /// gives the row another key: the old one first.
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

  /// Returns whether a change gives a row a key of the same name that is another text.
  private func movesText(_ naming: Naming) -> Bool {
    naming.key.contains { index in
      guard index < before.count, case .text(let old) = naming.keyView(index, before[index]),
        case .text(let new) = naming.keyView(index, after[index])
      else { return false }
      return !old.elementsEqual(new)
    }
  }

  /// Returns the rows of ``names(_:_:)`` with their keys, in the form of the trail.
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

  /// Returns a row of a copy or of the target, with all its values; nil if it has no key.
  func keyed(_ schema: TableSchema, _ row: [Value]) -> KeyedRow? {
    guard let name = name(schema, row) else { return nil }
    let naming = naming(of: schema)
    return KeyedRow(name, naming.key.map { naming.keyValue($0, row[$0]) })
  }

  /// Returns the same as ``name(_:_:)-(TableSchema,ImageView)``, with the row's key.
  func keyed(_ schema: TableSchema, _ image: ImageView) throws -> KeyedRow? {
    guard let name = try name(schema, image) else { return nil }
    let naming = naming(of: schema)
    return KeyedRow(name, naming.key.map { naming.keyValue($0, after[$0].value ?? .null) })
  }

  /// Returns the key of a version's row, as in ``KeyedRow/key``.
  func key(of version: StoredVersion) -> [Value] {
    let naming = naming(of: version.schema)
    return naming.key.map { index in
      naming.keyValue(index, (version.after.flatMap { $0[index] } ?? version.before.flatMap { $0[index] }) ?? .null)
    }
  }

  /// Returns whether other rows reference a row that a change touches by this name, through columns other than its key.
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

  /// Returns the other rows that a row references after a change. A row that references itself is left out: it protects
  /// nothing.
  ///
  /// - Parameter withKeys: Whether the result has the values by which the rows are referenced.
  func parents(_ schema: TableSchema, _ change: ChangeView, withKeys: Bool = false) throws -> [Parent] {
    let naming = naming(of: schema)
    guard change.after != nil, !naming.references.isEmpty else { return [] }
    try readWhole(change, naming)
    return naming.references.compactMap { reference in
      guard let parent = reference.parent.name(left) else { return nil }
      if reference.isOwn, parent == name(naming, left) || naming.alternates.contains(where: { $0.name(left) == parent })
      {
        return nil
      }
      let key = withKeys ? reference.parent.columns.map { naming.keyValue($0, left($0).value ?? .null) } : []
      return Parent(name: parent, isByKey: reference.isByKey, key: key)
    }
  }

  /// Returns the rows that a row referenced before a change took it away from its key.
  func left(_ schema: TableSchema, _ change: ChangeView) throws -> [Parent] {
    let naming = naming(of: schema)
    guard change.before != nil, !naming.references.isEmpty else { return [] }
    guard try change.operation == .delete || names(schema, change).count == 2 else { return [] }
    try readWhole(change, naming)
    return naming.references.compactMap { reference in
      reference.parent.name { before[$0] }.map { Parent(name: $0, isByKey: reference.isByKey) }
    }
  }

  /// Returns the names of a change's rows by columns that foreign keys reference, other than their keys.
  func alternates(_ schema: TableSchema, _ change: ChangeView) throws -> [RowName] {
    let naming = naming(of: schema)
    guard change.operation != .truncate, !naming.alternates.isEmpty else { return [] }
    try readWhole(change, naming)
    var names: [RowName] = []
    for part in naming.alternates {
      let old = change.before == nil ? nil : part.name { before[$0] }
      let new = change.after == nil ? nil : part.name(left)
      names += old == new ? [old].compactMap { $0 } : [old, new].compactMap { $0 }
    }
    return names
  }

  /// Returns everything that the window keeps of a change: the rows that it touches, and the rows that it references.
  func namesAndReferences(_ schema: TableSchema, _ change: ChangeView) throws -> ChangedRows {
    if change.treatment.contains(.copied), let image = change.after { return try ChangedRows(copied(schema, image)) }
    var rows = try names(schema, change)
    for parent in try parents(schema, change) { rows.append(parent.name.reference) }
    for name in try alternates(schema, change) { rows.append(name) }
    for parent in try left(schema, change) { rows.append(parent.name.leavers) }
    return rows
  }

  private func readWhole(_ change: ChangeView, _ naming: Naming) throws {
    before.removeAll(keepingCapacity: true)
    after.removeAll(keepingCapacity: true)
    if let image = change.before { try read(image, naming, .max, into: &before) }
    if let image = change.after { try read(image, naming, .max, into: &after) }
  }

  /// Returns a column of the row after the change.
  private func left(_ index: Int) -> ColumnView {
    after[index].isUnchanged && index < before.count ? before[index] : after[index]
  }

  /// Returns the name that replaces a table's name for rows of a copy.
  static func copied(_ table: String) -> String { "\(table) copied" }

  /// Returns the name of a row of a copy; nil if it has no key.
  func name(_ schema: TableSchema, _ image: ImageView) throws -> RowName? {
    try name(naming(of: schema), image) { $0.begun }
  }

  /// Returns the name of a row as one of a copy, which is no version of it; nil if it has no key.
  ///
  /// It distinguishes copies of two nodes that did not know each other.
  func copied(_ schema: TableSchema, _ image: ImageView) throws -> RowName? {
    try name(naming(of: schema), image) { $0.copied }
  }

  private func name(_ naming: Naming, _ image: ImageView, _ begun: (Naming) -> RowNaming) throws -> RowName? {
    guard !naming.key.isEmpty else { return nil }
    after.removeAll(keepingCapacity: true)
    try read(image, naming, naming.width, into: &after)
    return name(naming, begun(naming)) { after[$0] }
  }

  /// Returns the name of a row with all its values.
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

  /// Returns the rows that a row references, as far as its values are given.
  func parents(_ schema: TableSchema, _ row: [Value?]) -> [Parent] {
    let naming = naming(of: schema)
    return naming.references.compactMap { reference in
      reference.parent.name(of: row, naming).map { name in
        Parent(
          name: name, isByKey: reference.isByKey,
          key: reference.parent.columns.map { naming.keyValue($0, row[$0] ?? .null) })
      }
    }
  }

  /// Returns the names of a row by other unique columns, as far as its values are given.
  func alternates(_ schema: TableSchema, _ row: [Value?]) -> [RowName] {
    let naming = naming(of: schema)
    return naming.alternates.compactMap { $0.name(of: row, naming) }
  }

  private func naming(of schema: TableSchema) -> Naming {
    // Most changes are of the same table as the change before.
    if let last, last.isOf(schema) { return last }
    if let naming = known[schema.fullName], naming.isOf(schema) {
      last = naming
      return naming
    }
    let target = target(schema)
    let keyed = schema.flags.contains(.wholeRow) ? [] : schema.key
    let naming = Naming(
      schema, as: target,
      keyed.sorted { schema.columns[$0].name.sqliteKey < schema.columns[$1].name.sqliteKey },
      alternates: alternates[target.sqliteKey, default: []].compactMap { alternate($0, schema) },
      references: schema.foreignKeys.compactMap { reference($0, of: schema) })
    known[schema.fullName] = naming
    last = naming
    return naming
  }

  private func target(_ schema: TableSchema) -> String {
    TableMapping.targetName(of: schema, in: engine, names: names)
  }

  private func begun(_ target: String, _ alternate: [NameKey]) -> RowNaming {
    RowNaming(table: "\(target)(\(alternate.map(\.text).joined(separator: ",")))")
  }

  private func alternate(_ names: [NameKey], _ schema: TableSchema) -> Naming.Part? {
    let columns = names.compactMap { name in schema.columns.firstIndex { $0.name.sqliteKey == name } }
    return columns.count == names.count ? .init(begun: begun(target(schema), names), columns: columns) : nil
  }

  /// Returns the reference of a foreign key; nil if it does not name the columns that it references.
  private func reference(_ key: TableSchema.ForeignKey, of schema: TableSchema) -> Naming.Reference? {
    guard key.columns.count == 1 || key.columns.count == key.references.count else { return nil }
    var parent = schema
    (parent.namespace, parent.name) = (key.namespace, key.table)
    let (own, target) = (target(schema), target(parent))
    let pairs = zip(key.references.map { $0.sqliteKey }, key.columns).sorted { $0.0 < $1.0 }
    let columns = key.columns.count == 1 ? key.columns : pairs.map(\.1)
    let isByKey = !alternates[target.sqliteKey, default: []].contains(pairs.map(\.0))
    return (
      .init(begun: isByKey ? RowNaming(table: target) : begun(target, pairs.map(\.0)), columns: columns), isByKey,
      own == target
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

  /// Reads the first columns of a row, without padding.
  private func read(_ image: ImageView, _ naming: Naming, _ width: Int, into columns: inout [ColumnView]) throws {
    var reader = ByteReader(image.bytes)
    let width = min(width, naming.schema.columns.count)
    while columns.count < width, !reader.isAtEnd {
      columns.append(naming.plain(columns.count, try reader.readColumn()))
    }
  }
}
