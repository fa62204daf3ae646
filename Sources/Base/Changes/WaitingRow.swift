/// A waiting row of a two-way database, as a refresh sends it through a trail.
///
///     var writer = ByteWriter()
///     writer.appendWaitingRow(schema: 1, [.integer(4), .text(name)], clock: 9, origin: "till-7.pos", number: 2)
package struct WaitingRow {
  package var schemaID: UInt64
  package var image: ImageView
  /// The clock of the transaction that wrote the row last.
  package var clock: UInt64
  package var origin: String
  package var number: UInt64

  package init(schemaID: UInt64, image: ImageView, clock: UInt64, origin: String, number: UInt64) {
    (self.schemaID, self.image, self.clock, self.origin, self.number) = (schemaID, image, clock, origin, number)
  }

  init(_ reader: inout ByteReader) throws {
    schemaID = try reader.readNumber("schema id")
    image = try reader.readImage()
    clock = try reader.readClock()
    origin = try reader.readString()
    number = try reader.readNumber("transaction")
    guard origin.isEmpty || TrailName(origin) != nil else {
      throw DecodingError(offset: reader.offset, problem: "the trail of a waiting row is none")
    }
  }
}

extension ByteWriter {
  package mutating func appendWaitingRow(
    schema id: UInt64, _ values: [Value?], clock: UInt64, origin: String, number: UInt64
  ) {
    appendVarint(id)
    appendImage(values)
    appendVarint(clock)
    appendString(origin)
    appendVarint(number)
  }
}
