import Changes
import Testing

@Suite struct VersionVectorTests {
  @Test func `knowledge of an origin never goes back`() {
    var knowledge = VersionVector()
    #expect(knowledge.number(of: "a.x") == 0 && knowledge.clock == 0 && knowledge.dependencies.isEmpty)
    knowledge.note("b.x", number: 7, clock: 70)
    knowledge.note("a.x", number: 3, clock: 90)
    knowledge.note("b.x", number: 5, clock: 50)
    knowledge.note("a.x", number: 2, clock: 95)
    #expect(knowledge.number(of: "b.x") == 7 && knowledge.number(of: "a.x") == 3)
    #expect(knowledge.clock == 95)
    #expect(knowledge.dependencies == [.init(origin: "a.x", number: 3), .init(origin: "b.x", number: 7)])
  }

  @Test(arguments: [0, 1, 3]) func `it is read as it was written`(count: Int) throws {
    var knowledge = VersionVector()
    for index in 0..<count {
      knowledge.note("node-\(index).x", number: UInt64(index) << 40, clock: NumberBounds.clocks - 1)
    }
    var writer = ByteWriter()
    writer.append(knowledge)
    let bytes = Array(writer.bytes)
    let read = try bytes.withUnsafeBytes { raw in
      var reader = ByteReader(raw)
      let read = try reader.readKnowledge()
      #expect(reader.isAtEnd)
      return read
    }
    #expect(read == knowledge)
    for length in 0..<bytes.count {
      let part = Array(bytes[..<length])
      #expect(throws: DecodingError.self) {
        try part.withUnsafeBytes { raw in
          var reader = ByteReader(raw)
          _ = try reader.readKnowledge()
        }
      }
    }
  }

  private static let id = TrailID(Array(0..<16))
  private static let other = TrailID(Array(16..<32))

  @Test func `a trail that was begun again counts by itself, beside the one before`() {
    var knowledge = VersionVector()
    knowledge.note("b.x", number: 20, clock: 70)
    knowledge.note("b.x", id: Self.id, number: 21, clock: 60)
    #expect(knowledge.dependencies == [.init(origin: "b.x", number: 21, id: Self.id)], "an earlier version noted it")
    #expect(knowledge.clock == 70 && !knowledge.hasUnnamed)
    knowledge.note("b.x", id: Self.other, number: 2, clock: 80)
    knowledge.note("b.x", id: Self.other, number: 1, clock: 90)
    #expect(
      knowledge.dependencies == [
        .init(origin: "b.x", number: 21, id: Self.id), .init(origin: "b.x", number: 2, id: Self.other),
      ])
    #expect(knowledge.number(of: "b.x") == 2 && knowledge.clock == 90)
    for byte in 0..<10 as Range<UInt8> {
      knowledge.note("b.x", id: TrailID(Array(repeating: byte, count: 16)), number: 1, clock: 1)
    }
    #expect(knowledge.dependencies.map { $0.id?.bytes.first } == [6, 7, 8, 9])
    #expect(knowledge.clock == 90, "a clock is never forgotten")
  }

  @Test func `ids of trails are read as they were written`() throws {
    var knowledge = VersionVector()
    knowledge.note("b.x", id: Self.id, number: 21, clock: 60)
    knowledge.note("b.x", id: Self.other, number: 2, clock: 80)
    knowledge.note("c.x", number: 2, clock: 80)
    var writer = ByteWriter()
    writer.append(knowledge)
    let read = try Array(writer.bytes).withUnsafeBytes { raw in
      var reader = ByteReader(raw)
      return try reader.readKnowledge()
    }
    #expect(read == knowledge)
  }

  @Test(arguments: [nil, TransactionHeader.Dependency(origin: "c.x", number: 9)])
  func `a note with the id of its trail is read as it was printed`(origin: TransactionHeader.Dependency?) {
    let note = AppliedNote(
      trail: "till-7.pos", id: Self.id, number: 12, clock: 5, position: .init(segment: 3, offset: 0x1a), origin: origin)
    #expect(
      note.text == "\(origin == nil ? 3 : 4) till-7.pos 12 5 00000003:0000001a 000102030405060708090a0b0c0d0e0f"
        + (origin == nil ? "" : " c.x 9"))
    #expect(AppliedNote(note.text) == note)
    #expect(AppliedNote(note.withoutID.text) == note.withoutID)
  }

  @Test func `a note is read as it was printed`() {
    let note = AppliedNote(
      trail: "till-7.pos", number: 12, clock: NumberBounds.clocks - 1, position: .init(segment: 3, offset: 0x1a))
    #expect(note.text == "1 till-7.pos 12 4611686018427387903 00000003:0000001a")
    #expect(AppliedNote(note.text) == note)
  }

  @Test(arguments: [
    "", "1", "2 a.x 1 1 00000001:00000000", "1 a 1 1 00000001:00000000", "1 a.x -1 1 00000001:00000000",
    "3 a.x 1 1 00000001:00000000", "3 a.x 1 1 00000001:00000000 0g", "4 a.x 1 1 00000001:00000000 b.x 1",
    "1 a.x 1 1 00000001", "1 a.x 1 1 00000001:00000000 more", "1  a.x 1 1 00000001:00000000",
  ]) func `a text that is no note is not taken for one`(text: String) {
    #expect(AppliedNote(text) == nil)
  }
}
