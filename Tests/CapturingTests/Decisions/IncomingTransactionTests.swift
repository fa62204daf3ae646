import Changes
import PostgresKit
import Testing

@testable import Capturing

@Suite struct IncomingTransactionTests {
  private static let id = TrailID(hex: String(repeating: "cd", count: 16))
  private let transaction = PostgresPosition.Transaction(commit: LSN(500), xid: 42, time: 1000)

  private func incoming(
    applies: Set<String>? = nil, relays: Bool = false, isRecorded: Bool = false
  ) -> IncomingTransaction {
    var options = PostgresCapture.Options()
    (options.applies, options.relays) = (applies, relays)
    var incoming = IncomingTransaction(.init(options: options, trail: "here.shop"))
    incoming.begin(transaction, isRecorded: isRecorded)
    return incoming
  }

  private func note(_ number: UInt64, from trail: String = "far.shop", origin: String? = nil) -> String {
    AppliedNote(
      trail: trail, id: Self.id, number: number, clock: 2000, position: .start,
      origin: origin.map { .init(origin: $0, number: 7) }
    ).text
  }

  @discardableResult private func take(
    _ message: IncomingTransaction.Message, _ text: String, _ incoming: inout IncomingTransaction
  ) -> IncomingTransaction.Action {
    var text = text
    return text.withUTF8 { incoming.take(message, UnsafeRawBufferPointer($0), now: 5000) }
  }

  @Test func `the changes of an application go into the trail`() throws {
    var incoming = incoming()
    #expect(incoming.isOpen && incoming.change() && !incoming.isApplied && incoming.applier.isEmpty)
    #expect(incoming.header?.commitTime == 1000 && incoming.header?.relay == nil)
    let ended = incoming.commit()
    let outcome = try #require(ended)
    #expect(outcome.transaction == transaction && outcome.commitTime == 1000)
    #expect(outcome.barrier == nil && !outcome.wantsRecord && outcome.notes.isEmpty)
    #expect(!incoming.isOpen && !incoming.change() && incoming.commit() == nil && incoming.header == nil)
  }

  @Test func `a transaction that the trail has already is left out`() {
    var incoming = incoming(isRecorded: true)
    #expect(incoming.change() == false)
    #expect(take(.request, "", &incoming) == .nothing && take(.schema, "", &incoming) == .nothing)
    take(.note, note(3), &incoming)
    #expect(incoming.commit()?.notes.isEmpty == true, "its notes are recorded too")
  }

  @Test func `the rows of an apply are left out, but its notes and schema changes count`() {
    var incoming = incoming()
    take(.note, note(0), &incoming)
    #expect(!incoming.change() && incoming.isApplied && incoming.applier == "far.shop")
    #expect(take(.schema, "", &incoming) == .changeSchema && take(.request, "", &incoming) == .nothing)
    take(.note, note(3), &incoming)
    #expect(incoming.commit()?.notes.map(\.number) == [3], "number 0 states nothing")
  }

  @Test func `a note after a change is no apply's`() {
    var incoming = incoming()
    #expect(incoming.change() == true)
    take(.note, note(3), &incoming)
    #expect(incoming.change() && !incoming.isApplied)
    #expect(incoming.commit()?.notes.isEmpty == true)
  }

  @Test func `an apply whose rows do not come from where the trail goes counts as an application`() {
    var other = incoming(applies: ["near.shop"])
    take(.note, note(3), &other)
    other.origin("cairn_17_far.shop")
    #expect(other.change() && !other.isApplied)
    var own = incoming(applies: ["far.shop"])
    own.origin("cairn_17_far.shop")
    #expect(own.change() == false)
    var foreign = incoming()
    foreign.origin("bdr_17")
    #expect(foreign.change() == true, "the origin of other software")
  }

  @Test func `rows that go on keep the clock and the origin of the apply's note`() throws {
    var incoming = incoming(relays: true)
    take(.note, note(3, origin: "source.shop"), &incoming)
    #expect(incoming.change() && incoming.isApplied)
    let header = try #require(incoming.header)
    #expect(header.commitTime == 2000 && header.relay?.origin?.origin == "source.shop")
    var plain = self.incoming(relays: true)
    take(.note, note(3), &plain)
    #expect(plain.change() == false, "a note without an origin does not go on")
    var recorded = self.incoming(relays: true, isRecorded: true)
    take(.note, note(3, origin: "source.shop"), &recorded)
    #expect(recorded.change() == false, "the trail has it")
  }

  @Test func `a note of the trail itself is no knowledge`() {
    var incoming = incoming()
    take(.note, note(3, from: "here.shop"), &incoming)
    #expect(incoming.commit()?.notes.isEmpty == true)
  }

  @Test func `a forged clock is lowered to what other applies accept`() throws {
    var incoming = incoming()
    let forged = AppliedNote(
      trail: "far.shop", id: Self.id, number: 1, clock: 10_000_000_000, position: .start)
    var text = forged.text
    _ = text.withUTF8 { incoming.take(.note, UnsafeRawBufferPointer($0), now: 5000) }
    let notes = incoming.commit()?.notes ?? []
    #expect(try #require(notes.first).clock <= 5000 + 120_000_000)
  }

  @Test func `a note that names no trail comes from an apply`() {
    var incoming = incoming()
    take(.note, "unreadable", &incoming)
    #expect(!incoming.change() && incoming.isApplied && incoming.applier.isEmpty)
  }

  @Test func `only messages that steer capture must be signed`() {
    let incoming = incoming()
    #expect(incoming.key(of: .barrier, since: nil) == nil && incoming.key(of: .earlierSchema, since: nil) == nil)
    #expect(incoming.key(of: .progress, since: nil) == .own && incoming.key(of: .request, since: nil) == .own)
    #expect(incoming.key(of: .schema, since: nil) == .triggers)
    #expect(incoming.key(of: .note, since: nil) == .own && incoming.key(of: .note, since: LSN(500)) == .own)
    #expect(incoming.key(of: .note, since: LSN(501)) == nil, "builds before the key signed nothing")
  }

  @Test func `a barrier has its text, and one that is too long is none of Cairn's`() {
    var incoming = incoming()
    take(.barrier, "one", &incoming)
    take(.barrier, String(repeating: "x", count: 257), &incoming)
    take(.progress, "", &incoming)
    let outcome = incoming.commit()
    #expect(outcome?.barrier == "one" && outcome?.wantsRecord == true)
  }

  private func rewrite(_ reasons: Int, tag: String = "ALTER TABLE", computes: Bool = false) -> TableRewrite {
    TableRewrite(reasons: reasons, tag: tag, mayCompute: computes)
  }

  @Test func `a rewrite belongs to the shape that follows it at once`() {
    var incoming = incoming()
    incoming.noteRewrite(of: 3, rewrite(4))
    #expect(incoming.takeRewrite(of: 3) == TableRewrite(reasons: 4, mayCompute: false))
    #expect(incoming.takeRewrite(of: 3) == nil && incoming.unreported.isEmpty)
  }

  @Test func `a rewrite whose shape another shape precedes may have computed values`() {
    var incoming = incoming()
    incoming.noteRewrite(of: 3, rewrite(4))
    #expect(incoming.takeRewrite(of: 2) == nil)
    #expect(incoming.takeRewrite(of: 3)?.mayCompute == true)
    incoming.noteRewrite(of: 3, rewrite(4))
    incoming.doubtRewrites()
    #expect(incoming.takeRewrite(of: 3)?.mayCompute == true)
  }

  @Test func `two rewrites before a shape, and one by a type, may have computed values`() {
    var incoming = incoming()
    incoming.noteRewrite(of: 3, rewrite(1))
    incoming.noteRewrite(of: 3, rewrite(4))
    #expect(incoming.takeRewrite(of: 3) == TableRewrite(reasons: 5, mayCompute: true))
    incoming.noteRewrite(of: 3, rewrite(4, tag: "ALTER TYPE"))
    #expect(incoming.takeRewrite(of: 3)?.mayCompute == true)
  }

  @Test func `a rewrite without a shape leaves a table to copy`() {
    var incoming = incoming()
    incoming.noteRewrite(of: 9, rewrite(4))
    incoming.noteRewrite(of: 3, rewrite(2))
    incoming.noteRewrite(of: 4, rewrite(1 | 8))
    incoming.noteRewrite(of: 5, rewrite(-1))
    #expect(incoming.unreported == [.table(3), .table(5), .table(9)])
    incoming.drop()
    #expect(incoming.unreported.isEmpty)
  }

  @Test func `an apply's own rewrites bring no copy`() {
    var incoming = incoming()
    take(.note, note(3), &incoming)
    incoming.noteRewrite(of: 3, rewrite(4))
    #expect(incoming.unreported.isEmpty)
  }

  @Test func `rows written after a partition was made are read again`() {
    var incoming = incoming()
    incoming.noteWrite(of: 3, key: ["0"])
    #expect(!incoming.hasNewPartition(of: 3))
    incoming.notePartition(of: 3)
    incoming.notePartition(of: 4)
    #expect(incoming.hasNewPartition(of: 3) && incoming.unreported.isEmpty, "no row was written")
    incoming.noteWrite(of: 3, key: ["1", "a"])
    incoming.notePartition(of: 3)
    incoming.noteWrite(of: 3, key: ["2", "a"])
    #expect(incoming.unreported == [.rows(3, [["1", "a"], ["2", "a"]])])
    incoming.noteWrite(of: 4, key: nil)
    #expect(incoming.unreported.last == .table(4), "the key of a row is not known")
    incoming.noteRewrite(of: 3, rewrite(4))
    #expect(incoming.unreported == [.table(3), .table(4)])
  }

  @Test func `too many rows after a partition was made are a copy`() {
    var keys = WrittenKeys()
    for number in 0..<PostgresRequests.keysMax { keys.add([String(number)], room: 1 << 20) }
    #expect(keys.all?.count == PostgresRequests.keysMax)
    keys.add(["more"], room: 1 << 20)
    #expect(keys.all == nil && !keys.isEmpty)
    // The keys of all tables have one limit.
    var incoming = incoming()
    let half = String(repeating: "x", count: PostgresRequests.keyBytesMax / 2)
    for relation: UInt32 in [3, 4] {
      incoming.notePartition(of: relation)
      incoming.noteWrite(of: relation, key: [half])
    }
    #expect(incoming.unreported == [.rows(3, [[half]]), .table(4)])
  }

  @Test func `a dropped transaction leaves nothing`() {
    var incoming = incoming()
    take(.progress, "", &incoming)
    incoming.drop()
    #expect(!incoming.isOpen && incoming.commit() == nil)
    #expect(take(.request, "", &incoming) == .nothing)
  }

  /// The model: rows go into the trail if and only if two conditions hold. The trail does not have the transaction, and
  /// no note or origin of a left-out apply came before the first row.
  @Test(arguments: 0..<100) func `rows are in the trail as the messages before them say`(_ seed: Int) {
    var random = SeededRandom(UInt64(seed))
    let (isRecorded, relays) = (Bool.random(using: &random), Bool.random(using: &random))
    let applies: Set<String>? = Bool.random(using: &random) ? nil : ["far.shop"]
    var incoming = incoming(applies: applies, relays: relays, isRecorded: isRecorded)
    var (isLeftOut, hasRows, isApplied, isRelayed) = (isRecorded, false, false, false)
    var notes: [UInt64] = []
    for number in 1...UInt64(Int.random(in: 1...8, using: &random)) {
      switch Int.random(in: 0..<5, using: &random) {
      case 0, 1:
        #expect(incoming.change() == !isLeftOut)
        if !isLeftOut { hasRows = true }
      case 2, 3:
        let trail = Bool.random(using: &random) ? "far.shop" : "near.shop"
        let hasOrigin = Bool.random(using: &random)
        take(.note, note(number, from: trail, origin: hasOrigin ? "source.shop" : nil), &incoming)
        guard !hasRows || isApplied, applies?.contains(trail) ?? true else { continue }
        isApplied = true
        isRelayed = relays && (isRelayed || hasOrigin)
        isLeftOut = isRecorded || !isRelayed
        if !isRecorded { notes.append(number) }
      default:
        let trail = Bool.random(using: &random) ? "far.shop" : "near.shop"
        incoming.origin("cairn_9_\(trail)")
        if applies?.contains(trail) ?? true { isLeftOut = true }
      }
      #expect(incoming.isApplied == isApplied)
    }
    #expect(incoming.commit()?.notes.map(\.number) == notes)
  }
}
