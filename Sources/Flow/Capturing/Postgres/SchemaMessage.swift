import Changes
import PostgresKit

/// A message about a schema change, which one of the ``SchemaTriggers`` wrote into the stream.
struct SchemaMessage {
  enum Event {
    /// The shape of a table at the end of the command that changed it.
    case shape(PostgresTable)
    case dropped
    /// Rows of a table are about to be rewritten, for these reasons: bits of `pg_event_trigger_table_rewrite_reason()`.
    case rewritten(Int)
    case unpublished(String)
    /// An object that Cairn does not replicate was created.
    case made(kind: String, name: String)
    /// A schema change that the trigger could not describe. Capture must read the catalog.
    case doubt
  }

  let event: Event
  /// The oid of the table; 0 if there is none.
  var relation: UInt32 = 0
  var tag = ""
  /// Whether the change may have computed new values for existing rows, as with `USING`.
  var mayCompute = true
  /// The statement of the application, shortened if it is long; empty if the message has none.
  var text = ""

  /// Whether the shape changed only because the table inherits from the altered table.
  var isHeir = false

  static let version = "1"

  /// The maximum size of a message that is decoded, in bytes. A larger message becomes ``Event/doubt``.
  static let bytesMax = 24 << 20

  /// Decodes a message. Unknown, newer or too large content becomes ``Event/doubt``.
  init(_ content: UnsafeRawBufferPointer) {
    self = content.count > Self.bytesMax ? Self() : (try? Self(reading: content)) ?? Self()
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
    isHeir = letter == UInt8(ascii: "S") && field(5) == "heir"
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
