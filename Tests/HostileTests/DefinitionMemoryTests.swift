import Changes
import Foundation
import HostilePeer
import TestServers
import Testing

@testable import Trails

extension Hostile {
  /// Table definitions that take much memory, from few bytes, in one segment of a peer's trail.
  @Suite struct DefinitionMemoryTests {
    private static let evil = TrailName(origin: "evil", name: "x")

    enum Form: CaseIterable { case columns, objects, keys, texts }

    private static func table(_ form: Form) -> TableSchema {
      var table = TableSchema(epoch: 1, engine: .sqlite, name: "t", columns: [.init(name: "a", keyOrdinal: 1)])
      switch form {
      case .columns: table.columns += Array(repeating: .init(name: ""), count: 32_000)
      case .objects: table.objects = Array(repeating: .init(name: "", text: ""), count: 10_000)
      case .keys: table.uniques = Array(repeating: Array(repeating: 0, count: 200), count: 1000)
      case .texts: table.createText = String(repeating: " ", count: 16 << 20)
      }
      return table
    }

    /// A segment with one transaction of so many definitions, a block for each.
    private static func segment(_ form: Form, _ count: Int) -> HostileSegment {
      var encoded = ByteWriter()
      encoded.append(table(form))
      let definition = Array(encoded.bytes)
      var segment = HostileSegment(evil)
      for id in 1...count {
        var records = HostileRecords()
        if id == 1 { records.begin(1) }
        records.add(RecordKind.schema) {
          $0.appendVarint(UInt64(id))
          $0.append(definition)
        }
        if id == count { records.commit(1, changes: 0) }
        segment.block(records.bytes, id == count ? HostileSegment.Flags.border : HostileSegment.Flags.none)
      }
      return segment
    }

    private static func counts(_ form: Form) -> Int {
      switch form {
      case .columns: 80
      case .objects: 240
      case .keys: 100
      case .texts: 20
      }
    }

    private func expectRefusal(sourceLocation: SourceLocation = #_sourceLocation, _ body: () throws -> Void) {
      let error = #expect(throws: CairnError.self, sourceLocation: sourceLocation) { try body() }
      #expect(error?.code == .trailDamaged, sourceLocation: sourceLocation)
      #expect(
        error?.message.contains("more than 256 MiB") == true, "\(error?.message ?? "")", sourceLocation: sourceLocation)
    }

    @Test(arguments: Form.allCases) func `a reader refuses definitions that take too much memory`(_ form: Form) throws {
      let folder = FileManager.default.temporaryDirectory.path + "/cairn-hostile-" + UUID().uuidString
      try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
      defer { try? FileManager.default.removeItem(atPath: folder) }
      let segment = Self.segment(form, Self.counts(form))
      try Data(segment.bytes).write(to: URL(fileURLWithPath: folder + "/00000001.seg"))
      let end = blocksEnd(segment)
      let mark = DurableMark(
        generation: 1, segment: 1, fileOffset: UInt64(segment.bytes.count), contentOffset: end, chain: segment.chain,
        lastTransaction: 1, trail: segment.id)
      try Data([UInt8](repeating: 0, count: 512) + mark.encoded()).write(to: URL(fileURLWithPath: folder + "/durable"))
      let before = residentMemory()
      let reader = try TrailReader.open(folder: folder, at: nil)
      expectRefusal { while try reader.next() != nil {} }
      let taken = (residentMemory() - before) >> 20
      print("definitions by \(form): \(segment.bytes.count >> 20) MiB became \(taken) MiB")
      #expect(taken < 320)
    }

    @Test(arguments: Form.allCases)
    func `a copy takes no definitions that take too much memory, also after a restart`(_ form: Form) throws {
      let folder = FileManager.default.temporaryDirectory.path + "/cairn-hostile-" + UUID().uuidString
      try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
      defer { try? FileManager.default.removeItem(atPath: folder) }
      let segment = Self.segment(form, Self.counts(form))
      var sizes: [UInt64] = []
      for _ in 0..<2 {
        let copy = try TrailCopy.open(folder: folder + "/evil.x", name: Self.evil)
        let place = copy.end ?? TrailPlace(segment: 1, offset: 0, chain: .zero)
        let feed = CopyFeed(trail: segment.id, at: place, from: "sender")
        expectRefusal {
          try segment.bytes[Int(place.offset)...].withUnsafeBytes { try feed.take($0, for: copy) }
        }
        sizes.append(try #require(copy.end).offset)
        try copy.close()
      }
      #expect(sizes[0] == sizes[1] && sizes[0] < segment.bytes.count && sizes[0] > 100_000)
    }

    /// The size of the segment's content.
    private func blocksEnd(_ segment: HostileSegment) -> UInt64 {
      var (at, end) = (512, UInt64(0))
      while at < segment.bytes.count {
        let header = segment.bytes[at..<at + 72].withUnsafeBytes { BlockHeader(UnsafeRawBufferPointer($0)) }
        guard let header else { break }
        end += UInt64(header.contentLength)
        at += 72 + Int(header.storedLength)
      }
      return end
    }
  }
}
