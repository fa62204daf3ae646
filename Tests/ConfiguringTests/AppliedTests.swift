import Configuring
import Testing

/// The treatment of rows that applies write to a captured database.
struct AppliedTests {
  private static let chain =
    Conf.good + """

      [capture.erp]
      database = "erp"
      [database.copy]
      url = "sqlite:///srv/copy.db"
      [apply.copy]
      trail = "hq.erp"
      database = "copy"

      """

  private func load(_ text: String) throws -> Configuration {
    let loaded = Conf.load(text)
    return try #require(loaded.configuration, "\(loaded.problems)")
  }

  @Test func `rows go on in a chain, unless the conf says no`() throws {
    let conf = try load(Self.chain)
    let capture = try #require(conf.captures.first { $0.name == "erp" })
    #expect(conf.handsOn(capture))
    #expect(conf.lineOnApplied(capture) == "rows that [apply.erp] writes to database erp go into trail hq.erp")
    #expect(conf.applies.allSatisfy { conf.lineOnLacking($0) == nil })
    let text = Self.chain.replacing("[capture.erp]\n", with: "[capture.erp]\napplied = \"skip\"\n")
    let skipping = try load(text)
    let other = try #require(skipping.captures.first { $0.name == "erp" })
    #expect(!skipping.handsOn(other))
    #expect(skipping.lineOnApplied(other)?.hasSuffix("do not go into trail hq.erp (applied = \"skip\")") == true)
    let copy = try #require(skipping.applies.first { $0.name == "copy" })
    #expect(skipping.lineOnLacking(copy)?.contains("lacks what [apply.erp] writes to database erp") == true)
  }

  @Test func `a conf that only looks like two-way says what its trail lacks`() throws {
    let conf = """
      [node]
      name = "hq"
      [database.erp]
      url = "sqlite:///srv/erp.db"
      [capture.erp]
      database = "erp"
      [apply.pos]
      trail = "shop.pos"
      database = "erp"
      tables = ["item"]
      [peer.shop]
      may = { push = ["shop.pos"] }
      [peer.copy]
      may = { pull = ["hq.erp"] }

      """
    let both = try load(conf)
    let line = try #require(both.lineOnApplied(both.captures[0]))
    #expect(line.hasPrefix("rows that [apply.pos] writes to database erp do not go into trail hq.erp: peers may get"))
    #expect(line.hasSuffix("set applied = \"include\" in [capture.erp]"))
    let chain = try load(conf.replacing("[capture.erp]\n", with: "[capture.erp]\napplied = \"include\"\n"))
    #expect(
      chain.lineOnApplied(chain.captures[0]) == "rows that [apply.pos] writes to database erp go into trail hq.erp")
    let alone = try load(conf.replacing("[peer.copy]\nmay = { pull = [\"hq.erp\"] }\n", with: ""))
    #expect(alone.lineOnApplied(alone.captures[0])?.hasSuffix("go into trail hq.erp") == true)
  }

  @Test func `rows do not go on if a way leads back, over one database or several`() throws {
    let pair = try load(Self.chain + "[apply.back]\ntrail = \"hq.erp\"\ndatabase = \"shop\"\n")
    #expect(pair.captures.allSatisfy { !pair.handsOn($0) })
    let ring = try load(
      Self.chain + "[capture.copy]\ndatabase = \"copy\"\n[apply.round]\ntrail = \"hq.copy\"\ndatabase = \"shop\"\n")
    #expect(ring.captures.allSatisfy { !ring.handsOn($0) })
    #expect(ring.applies.allSatisfy { ring.leadsBack($0) && ring.captureBehind($0) == nil })
    #expect(ring.applies.allSatisfy { !ring.relayPlan($0).relays && ring.relayPlan($0).ownTrail != nil })
  }

  @Test func `rows that would come back over several databases are refused`() throws {
    let text =
      Self.chain.replacing("[capture.erp]\n", with: "[capture.erp]\napplied = \"include\"\n")
      + "[capture.copy]\ndatabase = \"copy\"\n"
    #expect(Conf.load(text).problems.isEmpty)
    let round = "[apply.round]\ntrail = \"hq.copy\"\ndatabase = \"shop\"\n"
    let problems = Conf.load(text + round).problems.map { "\($0)" }
    #expect(problems.count == 1 && problems[0].contains("[apply.round] brings them back there"), "\(problems)")
  }

  @Test func `several applies into one database go on together`() throws {
    let more = """
      [database.other]
      url = "sqlite:///srv/other.db"
      [capture.other]
      database = "other"
      [apply.other]
      trail = "hq.other"
      database = "erp"

      """
    let both = try load(Self.chain + more)
    let capture = try #require(both.captures.first { $0.name == "erp" })
    #expect(both.handsOn(capture) && both.applies.allSatisfy { both.relayPlan($0).relays })
    // One of them has a way back: its rows would return, so none goes on.
    let back = try load(Self.chain + more + "[apply.back]\ntrail = \"hq.erp\"\ndatabase = \"other\"\n")
    let skipping = try #require(back.captures.first { $0.name == "erp" })
    #expect(!back.handsOn(skipping))
    #expect(back.lineOnApplied(skipping)?.contains("[apply.erp] writes to database erp do not go into trail") == true)
  }
}
