import Changes
import Mapping
import SQLiteKit

// Tables that the target cannot have, or not under their name.
extension SQLiteReplay {
  /// Stands between a name and the table that cannot have it.
  private static let separator = "\u{1e}"

  /// By which apply knows a table of the trail. One whose name is that of another table of the source, but for its case or
  /// its schema, is known by a name that no table can have, while it waits.
  func targetName(of schema: TableSchema) -> String {
    let name = TableMapping.targetName(of: schema, in: .sqlite)
    guard schema.engine == .postgres else { return name }
    let aside = "\(name)\(Self.separator)\(Self.told(schema.fullName))"
    let isAside = target.tables.values.contains { $0.waiting?.holds(aside) ?? false }
    return isAside || owner(besides: schema) != nil ? aside : name
  }

  /// The name, with a mark before each capital letter: apply's state does not tell letters by their case.
  private static func told(_ name: String) -> String {
    name.map { $0.isUppercase ? "^\($0)" : String($0) }.joined()
  }

  /// The name that a table aside would have at the target; the name itself of any other table.
  ///
  /// A name may hold the separator, so the table behind it must be one that would have the name before it.
  static func wanted(_ name: String) -> String {
    let bytes = Array(name.utf8)
    for place in bytes.indices where bytes[place] == 0x1e {
      let base = String(decoding: bytes[..<place], as: UTF8.self)
      let (own, full) = (Array(told(base).utf8), Array(bytes[(place + 1)...]))
      if full == Array("public.".utf8) + own { return base }
      // In SQLite, an underscore takes the place of the dot behind a schema.
      for dot in full.indices where full[dot] == UInt8(ascii: ".") {
        if full[..<dot] + [UInt8(ascii: "_")] + full[(dot + 1)...] == own[...] { return base }
      }
    }
    return name
  }

  /// The other table of the source that has the name of this one.
  func owner(besides schema: TableSchema) -> String? {
    guard schema.engine == .postgres else { return nil }
    let name = TableMapping.targetName(of: schema, in: .sqlite).sqliteKey
    if case .lane(let key) = scope, key == name { return nil }
    guard let known = target.tables[name] else { return nil }
    let owner = known.waiting?.table.name ?? known.source
    return owner.isEmpty || owner.hasSameBytes(as: schema.fullName) ? nil : owner
  }

  /// What of a table is the trail's. What two trails have had in common since before that was looked at goes on, with a
  /// notice, but is not copied.
  func claimRows(of source: TableSchema, as name: String, isCopied: Bool = false) throws -> TableClaim {
    let claim = TableClaim(source)
    // Writers that settle their conflicts share all rows.
    if options.goesBothWays("", name) { return claim }
    let error = claim.collision(
      of: self.name, with: try state.feeders(of: name), table: name, source: source, at: database.path)
    guard let error else { return claim }
    let isOld = target.tables[key(name)].map { known in
      known.claim.map { $0 == claim } ?? true
    }
    guard !isCopied, isOld ?? false else { throw error }
    target.progress.note("\(error.message): a copy would delete the others' rows, and is refused; \(error.hint)")
    return claim
  }

  /// Whether the target can have a table of this shape.
  func fits(_ schema: TableSchema) -> Bool {
    (try? TableMapping(schema, to: .sqlite)) != nil && owner(besides: schema) == nil
  }

  /// Of a shape that does not fit; nil when there is none so far.
  func laterShape(of schema: TableSchema) throws -> LaterShape? {
    try LaterShape.find(
      of: schema, behind: reader.position, in: folder, from: groupStart, through: limit, rules: options.rules,
      to: .sqlite, fits: fits)
  }

  /// What can be written of rows of this shape; nil: nothing, as the table is dropped before it has one that fits.
  func part(of schema: TableSchema) throws -> LaterShape.Part? {
    if let part = desk?.part(of: schema) { return part }
    guard case .lane = scope, !fits(schema), let later = try laterShape(of: schema) else { return .init(schema) }
    if later.schema == nil { return nil }
    guard let part = later.part(of: schema) else { return .init(schema) }
    return part
  }

  /// The target's table is not as the rows need it: it was left as it was under `ignore`, or changed by somebody.
  func lacking(_ mapping: TableMapping, _ there: [Int]) throws -> Refusal {
    let schema = mapping.target
    let missing = schema.columns.indices.filter { !there.contains($0) }.map { schema.columns[$0] }
    var refusal = SchemaRefusal(place: database.path, phrases: [], after: schema.createText)
    let error: CairnError
    if there.isEmpty {
      refusal.phrases = ["table \(schema.name)"]
      refusal.statements = SQLiteAlteration.create(schema)
      error = refusal.error("there is no such table", table: schema.name)
    } else {
      refusal.phrases = missing.map { "column \($0.name) of table \(schema.name)" }
      let difference = TableDifference(schema.keeping(there), schema)
      refusal.statements = SQLiteAlteration(difference, isOwn: false).statements.filter { $0.contains(" ADD COLUMN ") }
      error = refusal.error("there is no such column", table: schema.name)
    }
    return Refusal(
      position: reader.position,
      error: CairnError(
        error.code, error.message,
        hint: error.hint
          + "\nwhere it was left out of rows (--ddl ignore), run once with --existing overwrite then, to copy them again",
        context: error.context))
  }
}
