import Changes
import PostgresKit

/// A message about a schema change, which an event trigger wrote into the stream (``SchemaTriggers``).
struct SchemaMessage {
  enum Event {
    /// The shape that a table has in the catalog at the end of the command.
    case shape(PostgresTable)
    case dropped
    /// The rows of a table are about to be rewritten. The value is the reason, as bits of
    /// `pg_event_trigger_table_rewrite_reason()`.
    case rewritten(Int)
    /// The table was removed from the publication with this name.
    case unpublished(String)
    /// An object of this kind and name was created; objects of this kind are not replicated.
    case made(kind: String, name: String)
    /// A schema change that the trigger could not describe, so that the catalog must be read.
    case doubt
  }

  let event: Event
  /// The oid of the table that the message is about; 0 if there is none.
  var relation: UInt32 = 0
  /// The SQL command that made the change, such as `ALTER TABLE`.
  var tag = ""
  /// Whether existing values may have changed with a column's type. True with `USING`, and for a change inside a
  /// function, whose text is unknown.
  var mayCompute = true
  /// The statement of the application, cut if it is long; empty if it is not kept.
  var text = ""

  static let version = "1"

  /// Reads the content of a message. Content of a newer version, or content that cannot be read, becomes
  /// ``Event/doubt``.
  init(_ content: UnsafeRawBufferPointer) {
    self = (try? Self(reading: content)) ?? Self()
  }

  private init() { event = .doubt }

  private init(reading content: UnsafeRawBufferPointer) throws {
    var reader = CatalogReader(content)
    guard let (letter, fields) = try reader.row(), fields.count >= 6, fields[0] == Self.version else {
      event = .doubt
      return
    }
    func field(_ index: Int) -> String { index < fields.count ? fields[index] ?? "" : "" }
    (tag, mayCompute, text) = (field(1), field(2) != "false", field(3))
    relation = UInt32(field(4)) ?? 0
    event =
      switch letter {
      case UInt8(ascii: "S"): try PostgresTable(CatalogDocument(reader.rest)).map { .shape($0) } ?? .doubt
      case UInt8(ascii: "D"): .dropped
      case UInt8(ascii: "R"): .rewritten(Int(field(5)) ?? -1)
      case UInt8(ascii: "U"): .unpublished(field(5))
      case UInt8(ascii: "N"): .made(kind: field(5), name: field(6))
      default: .doubt
      }
  }
}
