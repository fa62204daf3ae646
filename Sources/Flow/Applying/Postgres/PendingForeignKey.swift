import Changes
import Mapping
import PostgresKit

/// A foreign key that apply creates after the refreshes of both tables.
///
/// `cairn.pending` stores its parts, not SQL. A role that can write that table could otherwise make apply run any SQL.
///
/// ```
/// {"columns": ["item"], "references": ["id"], "on_update": "", "on_delete": "CASCADE", "delete_columns": [],
///   "timing": 0, "full": false}
/// ```
struct PendingForeignKey: Equatable {
  static let actions: Set<NameKey> = ["", "NO ACTION", "CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT"]

  @ByBytes var columns: [String]
  /// The referenced columns; empty: the primary key of the referenced table.
  @ByBytes var references: [String]
  @ByBytes var onUpdate: String = ""
  @ByBytes var onDelete: String = ""
  /// The columns that `ON DELETE SET NULL` or `SET DEFAULT` sets (PostgreSQL 15 and newer). Empty: all columns of the
  /// foreign key.
  @ByBytes var deleteColumns: [String] = []
  var timing = TableSchema.ForeignKey.Timing.immediate
  var isFull = false

  init(columns: [String], references: [String]) { (self.columns, self.references) = (columns, references) }

  init(_ key: TableSchema.ForeignKey, of table: TableSchema) {
    self.init(columns: key.columns.map { table.columns[$0].name }, references: key.references)
    (onUpdate, onDelete, timing) = (key.onUpdate.asciiUppercased, key.onDelete.asciiUppercased, key.timing)
  }

  /// Parses a foreign key from its JSON. Nil if the text has another form or names an unknown action.
  init?(json text: String) {
    guard case .object(let object)? = try? JSONReader.read(text) else { return nil }
    func names(_ key: String) -> [String] {
      object.list(key).compactMap { if case .text(let name) = $0 { name } else { nil } }
    }
    self.init(columns: names("columns"), references: names("references"))
    (onUpdate, onDelete) = (object.text("on_update") ?? "", object.text("on_delete") ?? "")
    deleteColumns = names("delete_columns")
    guard let timing = TableSchema.ForeignKey.Timing(rawValue: UInt8(clamping: object.integer("timing") ?? 0)),
      !columns.isEmpty, Self.actions.contains(onUpdate), Self.actions.contains(onDelete)
    else { return nil }
    self.timing = timing
    isFull = object.bool("full") ?? false
  }

  /// This foreign key without the actions that change rows of its own table.
  var withoutActions: Self {
    func kept(_ action: String) -> String { Self.changing.contains(action.nameKey) ? "" : action }
    var key = self
    (key.onUpdate, key.onDelete, key.deleteColumns) = (kept(onUpdate), kept(onDelete), [])
    return key
  }

  private static let changing: Set<NameKey> = ["CASCADE", "SET NULL", "SET DEFAULT"]

  var json: String {
    func list(_ names: [String]) -> JSONObject.Value { .list(names.map { .text($0) }) }
    return JSONObject([
      ("columns", list(columns)), ("references", list(references)), ("on_update", .text(onUpdate)),
      ("on_delete", .text(onDelete)), ("delete_columns", list(deleteColumns)),
      ("timing", .integer(Int64(timing.rawValue))), ("full", .bool(isFull)),
    ]).line
  }

  func statement(for pending: PostgresApplyState.Pending) -> String {
    func list(_ names: [String]) -> String {
      names.isEmpty ? "" : " (" + names.map(\.quotedName).joined(separator: ", ") + ")"
    }
    func action(_ event: String, _ action: String, _ columns: [String]) -> String {
      action.isEmpty || !Self.actions.contains(action) ? "" : " \(event) \(action)\(list(columns))"
    }
    let other =
      (pending.needsSchema.isEmpty ? "" : pending.needsSchema.quotedName + ".") + pending.needsTable.quotedName
    return "ALTER TABLE \(pending.schema.quotedName).\(pending.table.quotedName)"
      + " ADD CONSTRAINT \(pending.name.quotedName) FOREIGN KEY\(list(columns)) REFERENCES \(other)\(list(references))"
      + (isFull ? " MATCH FULL" : "") + action("ON UPDATE", onUpdate, []) + action("ON DELETE", onDelete, deleteColumns)
      + timing.clause
  }

  /// The query for the foreign keys that reference table `$1`, each with the name of the index that it needs.
  static let ofReferences = """
    SELECT n.nspname, c.relname, k.conname, json_build_object(
      'columns', (SELECT json_agg(a.attname ORDER BY x.place) FROM unnest(k.conkey) WITH ORDINALITY AS x(n, place)
        JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = x.n),
      'references', (SELECT json_agg(a.attname ORDER BY x.place) FROM unnest(k.confkey) WITH ORDINALITY AS x(n, place)
        JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = x.n),
      'on_update', \(action("k.confupdtype")), 'on_delete', \(action("k.confdeltype")),
      'delete_columns', (SELECT coalesce(json_agg(a.attname), '[]') FROM pg_attribute a WHERE a.attrelid = k.conrelid
        AND a.attnum = ANY (translate(to_jsonb(k) ->> 'confdelsetcols', '[]', '{}')::int2[])),
      'timing', CASE WHEN k.condeferred THEN 2 WHEN k.condeferrable THEN 1 ELSE 0 END, 'full', k.confmatchtype = 'f'),
      (SELECT i.relname FROM pg_class i WHERE i.oid = k.conindid)
    FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE k.contype = 'f' AND k.confrelid = to_regclass($1) AND k.conrelid <> k.confrelid AND k.conparentid = 0
    """

  private static func action(_ column: String) -> String {
    "CASE \(column) WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT' WHEN 'r' THEN 'RESTRICT' ELSE '' END"
  }
}
