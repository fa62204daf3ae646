import Changes

/// The names of indexes at a target.
///
/// A name is unique in an SQLite file, and in a schema of PostgreSQL. An index of another trail, or an object of the
/// target's own, may have the name of a source's index. The index then gets a spare name.
///
///     IndexNames.spare(for: "item_name")   // ["item_name1", …, "item_name99"]
package enum IndexNames {
  /// Returns the names that an index may have instead of `name`, in the order in which they are tried. As PostgreSQL
  /// does for the names that it chooses, they end in a number, and are cut to 63 bytes.
  package static func spare(for name: String) -> [String] {
    (1...99).map { number in
      let bytes = NamePolicy.postgresNameBytesMax - (number < 10 ? 1 : 2)
      var head = name
      while head.utf8.count > bytes { head.unicodeScalars.removeLast() }
      return head + String(number)
    }
  }

  /// Returns the name that an index or a sequence has while another table needs its name. It is cut to 63 bytes.
  ///
  ///     IndexNames.aside("item_pkey")   // cairn_moving_item_pkey
  package static func aside(_ name: String) -> String {
    var head = name
    while head.utf8.count > asideBytesMax { head.unicodeScalars.removeLast() }
    return asideStart + head
  }

  /// Returns the former name of an index or a sequence that has a name by ``aside(_:)``. Nil for any other name, and
  /// for one that may be cut.
  ///
  ///     IndexNames.former("cairn_moving_item_pkey")   // item_pkey
  package static func former(_ name: String) -> String? {
    guard name.utf8.starts(with: asideStart.utf8), let rest = String(name.utf8.dropFirst(asideStart.utf8.count)),
      !rest.isEmpty, rest.utf8.count < asideBytesMax - 3
    else { return nil }
    return rest
  }

  private static let asideStart = "cairn_moving_"
  private static let asideBytesMax = NamePolicy.postgresNameBytesMax - asideStart.utf8.count

  /// Gives the indexes of a target's table that have spare names the names that they have at the source.
  ///
  /// - Parameter indexes: The indexes of the target's table.
  /// - Parameter wanted: The indexes of the source's table, before and after a schema change.
  /// - Parameter taken: The names that are in use elsewhere; nil if Cairn created the table. In a table that Cairn did
  ///   not create, an index may have a spare name by chance.
  /// - Parameter isAlike: Whether an index of the target is the given one, except for its name.
  /// - Returns: The names at the target, by the names at the source.
  static func adopt(
    _ indexes: inout [TableSchema.Object], as wanted: [TableSchema.Object], in engine: Engine, taken: Set<NameKey>?,
    isAlike: (TableSchema.Object, TableSchema.Object) -> Bool
  ) -> [NameKey: String] {
    var names: [NameKey: String] = [:]
    let own = Set(wanted.map { $0.name.key(in: engine) })
    for object in wanted where !indexes.contains(where: { $0.name.key(in: engine) == object.name.key(in: engine) }) {
      let name = object.name.key(in: engine)
      let spare = Set((spare(for: object.name) + [aside(object.name)]).map { $0.key(in: engine) }).subtracting(own)
      let index = indexes.firstIndex { spare.contains($0.name.key(in: engine)) && isAlike($0, object) }
      guard let index, taken?.contains(name) ?? true else { continue }
      names[name] = indexes[index].name
      indexes[index] = .init(name: object.name, text: statement(indexes[index].text, object.name))
    }
    return names
  }

  /// Gives the indexes of a PostgreSQL table that have spare names the names that they have at the source.
  ///
  /// - Returns: The names at the target, by the names at the source.
  package static func adopt(
    _ there: inout PostgresAlteration.Target, _ before: TableSchema, _ after: TableSchema
  ) -> [NameKey: String] {
    let taken = there.isCreated ? nil : there.takenNames
    return adopt(&there.indexes, as: before.objects + after.objects, in: .postgres, taken: taken) { there, wanted in
      [before, after].contains { $0.objects.contains(wanted) && isAlike(there, wanted, in: $0) }
    }
  }

  /// Returns whether two indexes of a PostgreSQL table are the same, except for their names.
  package static func isAlike(_ one: TableSchema.Object, _ other: TableSchema.Object, in table: TableSchema) -> Bool {
    let columns = table.columns.map(\.name)
    guard let left = IndexText(one.text, columns: columns, engine: .postgres),
      let right = IndexText(other.text, columns: columns, engine: .postgres)
    else { return Words(statement(one.text, "i")) == Words(statement(other.text, "i")) }
    return left.terms == right.terms && left.isUnique == right.isUnique
  }

  /// Returns a CREATE INDEX statement with another name of the index.
  ///
  ///     IndexNames.statement("CREATE INDEX i ON t(a)", "j")   // CREATE INDEX "j" ON t(a)
  package static func statement(_ text: String, _ name: String) -> String {
    let bytes = Array(text.utf8)
    let tokens = SQLText.tokens(bytes)
    guard let on = tokens.firstIndex(where: { $0.word == "ON" }), on > 0 else { return text }
    let range = tokens[on - 1].range
    return String(
      decoding: bytes[..<range.lowerBound] + name.quotedName.utf8 + bytes[range.upperBound...], as: UTF8.self)
  }
}
