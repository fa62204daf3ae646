import Changes
import Mapping
import SQLiteKit

// Tables that the target cannot have, or cannot have under their name.
extension SQLiteReplay {
  /// The character that separates the two parts of a placeholder name: the wanted name, and the full name at the
  /// source. A table gets a placeholder name if another table has its wanted name.
  private static let separator = "\u{1e}"

  /// Returns the name under which apply's state lists a table of the trail: its name at the target.
  ///
  /// If another source table, whose name differs only in case or schema, has that name there, returns a placeholder.
  func targetName(of schema: TableSchema) -> String {
    let name = TableMapping.targetName(of: schema, in: .sqlite)
    guard schema.engine == .postgres else { return name }
    let aside = "\(name)\(Self.separator)\(Self.told(schema.fullName))"
    let isAside = target.tables.values.contains { $0.waiting?.holds(aside) ?? false }
    return isAside || owner(besides: schema) != nil ? aside : name
  }

  /// Returns a name with `^` before each capital letter. Names that differ only in case thus stay different in apply's
  /// state.
  private static func told(_ name: String) -> String {
    name.map { $0.isUppercase ? "^\($0)" : String($0) }.joined()
  }

  /// Returns the name that a table should have at the target. `name` may be a placeholder; any other name is returned.
  static func wanted(_ name: String) -> String {
    let bytes = Array(name.utf8)
    for place in bytes.indices where bytes[place] == 0x1e {
      let base = String(decoding: bytes[..<place], as: UTF8.self)
      let (own, full) = (Array(told(base).utf8), Array(bytes[(place + 1)...]))
      if full == Array("public.".utf8) + own { return base }
      // In SQLite, an underscore replaces the dot after a schema.
      for dot in full.indices where full[dot] == UInt8(ascii: ".") {
        if full[..<dot] + [UInt8(ascii: "_")] + full[(dot + 1)...] == own[...] { return base }
      }
    }
    return name
  }

  func owner(besides schema: TableSchema) -> String? {
    guard schema.engine == .postgres else { return nil }
    let name = TableMapping.targetName(of: schema, in: .sqlite).sqliteKey
    if case .catchUp(let key) = scope, key == name { return nil }
    guard let known = target.tables[name] else { return nil }
    let owner = known.waiting?.table.name ?? known.source
    return owner.isEmpty || owner.hasSameBytes(as: schema.fullName) ? nil : owner
  }

  /// Returns the part of a table's rows that this trail writes. Throws if another trail writes some of them too.
  ///
  /// - Parameter isCopied: Whether a refresh of the table begins. If not, and the trail's claim is not new, the
  ///   operator gets a notice instead of the error.
  func claimRows(of source: TableSchema, as name: String, isCopied: Bool = false) throws -> TableClaim {
    let claim = TableClaim(source)
    // Two-way applies resolve conflicts, so each of them may write all rows.
    if options.goesBothWays("", name) { return claim }
    let error = claim.collision(
      of: self.name, with: try state.feeders(of: name), table: name, source: source, at: database.path)
    guard let error else { return claim }
    let isOld = target.tables[key(name)].map { known in
      known.claim.map { $0 == claim } ?? true
    }
    guard !isCopied, isOld ?? false else { throw error }
    target.progress.note(
      "\(error.message): a copy would delete rows of other trails, so the table is not copied; \(error.hint)")
    return claim
  }

  func fits(_ schema: TableSchema) -> Bool {
    !schema.columns.isEmpty && (try? TableMapping(schema, to: .sqlite)) != nil && owner(besides: schema) == nil
  }

  func nextFittingSchema(of schema: TableSchema) throws -> NextFittingSchema? {
    try ahead.nextFittingSchema(of: schema, fits)
  }

  /// Returns the columns of a schema that apply can write; nil if the source drops the table later in the trail.
  func part(of schema: TableSchema) throws -> NextFittingSchema.Part? {
    if let part = desk?.part(of: schema) { return part }
    guard case .catchUp = scope, !fits(schema), let later = try nextFittingSchema(of: schema) else {
      return .init(schema)
    }
    if later.schema == nil { return nil }
    guard let part = later.part(of: schema) else { return .init(schema) }
    return part
  }

  /// Returns the error for a target table that lacks columns of the source's table.
  func lacking(_ mapping: TableMapping, _ there: [Int]) throws -> Refusal {
    let schema = mapping.target
    let missing = schema.columns.indices.filter { !there.contains($0) }.map { schema.columns[$0] }
    var refusal = SchemaRefusal(place: database.path, phrases: [], after: schema.createText)
    let error: CairnError
    if there.isEmpty {
      refusal.phrases = ["table \(schema.name)"]
      return Refusal(
        position: reader.position,
        error: refusal.error(
          noTable: schema.name, table: schema.name, goesBothWays: options.goesBothWays("", schema.name)))
    } else {
      refusal.phrases = missing.map { "column \($0.name) of table \(schema.name)" }
      let difference = TableDifference(schema.keeping(there), schema)
      refusal.statements = SQLiteAlteration(difference, isOwn: false).statements.filter { $0.contains(" ADD COLUMN ") }
      error = refusal.error("there is no such column", table: schema.name)
    }
    if options.goesBothWays("", schema.name) {
      return Refusal(
        position: reader.position,
        error: CairnError(
          error.code, error.message, hint: SchemaRefusal.hint(noColumn: error.hint), context: error.context))
    }
    return Refusal(
      position: reader.position,
      error: CairnError(
        error.code, error.message,
        hint: error.hint
          + "\nif rows lack it because 'ddl' was ignore, copy the table again afterwards (--existing overwrite)",
        context: error.context))
  }
}
