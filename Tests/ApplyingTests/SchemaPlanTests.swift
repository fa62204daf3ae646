import Changes
import Mapping
import Testing

@testable import Applying

/// The decisions about schema changes, which are the same for both engines.
struct SchemaPlanTests {
  private static func table(_ columns: String...) -> TableSchema {
    TableSchema(
      epoch: 0, engine: .sqlite, name: "t",
      columns: columns.map { .init(name: $0, keyOrdinal: $0 == "id" ? 1 : 0) })
  }

  private static func change(
    _ action: DDL.Action, from before: TableSchema? = nil, to after: TableSchema? = nil, origins: [Int?]? = nil,
    isRefreshed: Bool = false
  ) -> ShapeChange {
    ShapeChange(
      DDL(action: action, before: 0, after: 0, isRefreshed: isRefreshed), before: before, after: after,
      origins: origins)
  }

  private static var reshape: ShapeChange { change(.reshape, from: table("id"), to: table("id", "a")) }

  private static func plan(
    _ change: ShapeChange = reshape, isCreated: Bool = true, ddl: DDLPolicy? = nil, others: [String] = []
  ) -> SchemaPlan {
    let right = SchemaRight(
      .init(of: change.difference), isCreated: isCreated, others: others, goesBothWays: false)
    return SchemaPlan(change, .init(right: right, ddl: ddl))
  }

  @Test func `a step follows from the action and from what apply knows of the table`() {
    func step(_ change: ShapeChange, isStranger: Bool = false, isCopyAsked: Bool = false) -> SchemaPlan.Step {
      SchemaPlan.step(change, isStranger: isStranger, isCopyAsked: isCopyAsked)
    }
    let table = Self.table("id")
    #expect(step(Self.change(.create, to: table)) == .create(isAwaited: false))
    #expect(step(Self.change(.create, to: table), isCopyAsked: true) == .create(isAwaited: true))
    #expect(step(Self.change(.drop, from: table), isStranger: true) == .drop)
    #expect(step(Self.reshape) == .alter)
    #expect(step(Self.reshape, isStranger: true) == .create(isAwaited: true))
    #expect(step(Self.change(.rename, from: table, to: table), isStranger: true) == .create(isAwaited: true))
    #expect(step(Self.change(.reshape, from: table)) == .nothing)
    #expect(step(Self.change(.drop)) == .nothing)
  }

  @Test func `a dropped table goes only if Cairn created it and no other trail has rows in it`() {
    let drop = Self.change(.drop, from: Self.table("id"))
    #expect(Self.plan(drop).dropping("t") == .drop)
    #expect(
      Self.plan(drop, isCreated: false, ddl: .follow).dropping("t")
        == .keep("table t of the target stays: Cairn did not create it; it receives no more rows of this trail"))
    guard case .refuse(let why) = Self.plan(drop, isCreated: false).dropping("t") else {
      Issue.record("a table that Cairn did not create is not refused")
      return
    }
    #expect(why.contains("Cairn did not create the table"))
    guard case .keep(let notice) = Self.plan(drop, others: ["store-2.pos"]).dropping("t") else {
      Issue.record("the rows of another trail are dropped")
      return
    }
    #expect(notice.contains("trail store-2.pos brings rows into the table as well"))
    #expect(Self.plan(drop, ddl: .stop).dropping("t") == .refuse("'ddl' is stop"))
    #expect(
      Self.plan(drop, ddl: .ignore).dropping("t")
        == .keep("table t of the target stays, as 'ddl' is ignore; it receives no more rows"))
  }

  @Test func `a table that is gone is created again only if a copy brings its rows`() {
    let refreshed = Self.change(.reshape, from: Self.table("id"), to: Self.table("id", "a"), isRefreshed: true)
    #expect(Self.plan(refreshed).mayCreateAgain)
    #expect(!Self.plan(refreshed, isCreated: false, ddl: .follow).mayCreateAgain)
    #expect(!Self.plan(refreshed, ddl: .stop).mayCreateAgain)
    #expect(!Self.plan(Self.reshape).mayCreateAgain)
  }

  @Test func `columns that swap names are refused unless Cairn or a copy makes the change`() {
    let (before, after) = (Self.table("id", "a", "b"), Self.table("id", "b", "a"))
    let swap = Self.change(.reshape, from: before, to: after, origins: [0, 1, 2])
    let difference = TableDifference(before, after, origins: [0, 1, 2])
    #expect(Self.plan(swap).refusalOfReusedNames(difference) == nil)
    #expect(Self.plan(swap, ddl: .stop).refusalOfReusedNames(difference) == "'ddl' is stop")
    #expect(
      Self.plan(swap, ddl: .ignore).refusalOfReusedNames(difference) == "schema changes are ignored (--ddl ignore)")
    var refreshed = swap
    refreshed.isRefreshed = true
    #expect(Self.plan(refreshed, ddl: .stop).refusalOfReusedNames(difference) == nil)
  }

  @Test func `a column that only the target has is in the way of a rename`() {
    let (before, after) = (Self.table("id", "a"), Self.table("id", "b"))
    let rename = Self.change(.reshape, from: before, to: after, origins: [0, 1])
    let difference = TableDifference(before, after, origins: [0, 1])
    let taken = Self.plan(rename).takenName(difference, in: ["id".sqliteKey, "a".sqliteKey, "b".sqliteKey])
    #expect(taken?.old == "a" && taken?.new == "b")
    #expect(Self.plan(rename).takenName(difference, in: ["id".sqliteKey, "b".sqliteKey]) == nil)
  }

  @Test func `a requested copy ends the exchange of defaults, and another apply's change is not the source's alone`() {
    var facts = SchemaPlan.Facts(right: SchemaRight(isCreated: true), holdsOnlyTheSource: true, yieldsDefaults: true)
    var plan = SchemaPlan(Self.reshape, facts)
    #expect(plan.yieldsDefaults && plan.isSourceAlone && !plan.isReplaced)
    facts.isAwaited = true
    plan = SchemaPlan(Self.reshape, facts)
    #expect(!plan.yieldsDefaults && plan.isSourceAlone && plan.isReplaced)
    var applied = Self.reshape
    applied.isApplied = true
    #expect(!SchemaPlan(applied, facts).isSourceAlone)
  }

  @Test func `only the errors of one table suspend it`() {
    func suspends(_ code: ErrorCode) -> Bool { CairnError(code, "", hint: "").suspendsTable }
    #expect([ErrorCode.schemaStopped, .nameCollision, .ruleRefused, .ownersCode].allSatisfy(suspends))
    #expect(![ErrorCode.trailDamaged, .rowMissing, .databaseBusy].contains(where: suspends))
  }
}
