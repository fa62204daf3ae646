import Changes
import Testing

@Suite struct KnowledgeTests {
  @Test func `what is known of an origin never goes back`() {
    var knowledge = Knowledge()
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
    var knowledge = Knowledge()
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

  @Test func `a note is read as it was printed`() {
    let note = AppliedNote(
      trail: "till-7.pos", number: 12, clock: NumberBounds.clocks - 1, position: .init(segment: 3, offset: 0x1a))
    #expect(note.text == "1 till-7.pos 12 4611686018427387903 00000003:0000001a")
    #expect(AppliedNote(note.text) == note)
  }

  @Test(arguments: [
    "", "1", "2 a.x 1 1 00000001:00000000", "1 a 1 1 00000001:00000000", "1 a.x -1 1 00000001:00000000",
    "1 a.x 1 1 00000001", "1 a.x 1 1 00000001:00000000 more", "1  a.x 1 1 00000001:00000000",
  ]) func `what is no note is not taken for one`(text: String) {
    #expect(AppliedNote(text) == nil)
  }
}
