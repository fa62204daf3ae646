import Changes
import Replicating
import Testing

/// How an apply starts, decided from values.
@Suite struct StartPlanTests {
  private static func id(_ byte: UInt8) throws -> TrailID { try #require(TrailID([UInt8](repeating: byte, count: 16))) }

  /// A checkpoint in segment `segment`.
  private static func at(_ segment: UInt64, in trail: UInt8 = 1) throws -> Checkpoint {
    Checkpoint(trail: try id(trail), position: Position(segment: segment, offset: 64), chain: .zero)
  }

  /// A trail with the segments `first` to 9.
  private static func trail(from first: UInt64 = 1) throws -> StartPlan.Extent {
    .init(try id(1), from: Position(segment: first, offset: 0), to: Position(segment: 9, offset: 64))
  }

  private static let careful = StartPlan.Rules(existing: nil)

  @Test func `apply continues at a position that the trail has`() throws {
    for first: UInt64 in [1, 3] {
      for request: StartPlan.Request in [.none, .open(.init(behind: 7)), .open(.init(behind: 7, at: try Self.at(2)))] {
        let plan = StartPlan(try Self.at(3), trail: try Self.trail(from: first), request: request, rules: Self.careful)
        #expect(plan == .resume && plan.proves.isEmpty && !plan.forgets && !plan.isLost)
      }
    }
  }

  @Test func `a first start begins with the trail, and proves that no rows are overwritten`() throws {
    for trail in [nil, try Self.trail()] {
      #expect(
        StartPlan(nil, trail: trail, request: .none, rules: Self.careful)
          == .begin(at: nil, forgets: false, proves: [.noRows]))
      for rules in [StartPlan.Rules(existing: .keep), .init(existing: nil, copiesRows: false)] {
        #expect(
          StartPlan(nil, trail: trail, request: .none, rules: rules) == .begin(at: nil, forgets: false, proves: []))
      }
    }
  }

  @Test func `a checkpoint of another trail is refused, or removed if the host allows it`() throws {
    let foreign = try Self.at(3, in: 2)
    let allowed = StartPlan.Rules(existing: .merge, replacesForeign: true)
    for trail in [nil, try Self.trail()] {
      #expect(StartPlan(foreign, trail: trail, request: .none, rules: Self.careful) == .refuse(.foreign))
      #expect(
        StartPlan(foreign, trail: trail, request: .none, rules: allowed)
          == .begin(at: nil, forgets: true, proves: []))
    }
    let part = try Self.trail(from: 2)
    #expect(
      StartPlan(foreign, trail: part, request: .none, rules: allowed)
        == .copyAll(.init(isLost: true, forgets: true, proves: [.noTables])))
  }

  @Test func `a position that is purged is refused, or begins a copy`() throws {
    let (old, part) = (try Self.at(3), try Self.trail(from: 4))
    #expect(StartPlan(old, trail: part, request: .none, rules: Self.careful) == .refuse(.purged))
    #expect(
      StartPlan(old, trail: part, request: .none, rules: .init(existing: nil, copiesPurged: true))
        == .copyAll(.init(isLost: true, forgets: true)))
  }

  @Test func `a trail whose beginning is purged fills a new target by a copy`() throws {
    #expect(
      StartPlan(nil, trail: try Self.trail(from: 4), request: .none, rules: Self.careful)
        == .copyAll(.init(isLost: true, forgets: false, proves: [.noRows, .noTables])))
  }

  @Test func `an order to copy everything proves nothing, and forgets only a position that is lost`() throws {
    let whole = try Self.trail()
    let part = try Self.trail(from: 4)
    func plan(_ checkpoint: Checkpoint?, _ trail: StartPlan.Extent) -> StartPlan {
      StartPlan(checkpoint, trail: trail, request: .ordered, rules: Self.careful)
    }
    #expect(try plan(Self.at(5), part) == .copyAll(.init(isLost: false, forgets: false)))
    #expect(try plan(Self.at(3), part) == .copyAll(.init(isLost: true, forgets: true)))
    #expect(try plan(Self.at(5, in: 2), whole) == .copyAll(.init(isLost: false, forgets: true)))
    #expect(try plan(Self.at(5, in: 2), part) == .copyAll(.init(isLost: true, forgets: true)))
    #expect(plan(nil, whole) == .copyAll(.init(isLost: false, forgets: true)))
    #expect(plan(nil, part) == .copyAll(.init(isLost: true, forgets: true)))
  }

  @Test func `a copy that was asked for is awaited while the trail still has its place`() throws {
    let place = try Self.at(5)
    func plan(_ asked: CopyRequest.Asked, from first: UInt64) throws -> StartPlan {
      StartPlan(nil, trail: try Self.trail(from: first), request: .open(asked), rules: Self.careful)
    }
    let open = CopyRequest.Asked(behind: 7, at: place)
    #expect(try plan(open, from: 4) == .begin(at: place, forgets: false, proves: []))
    #expect(try plan(open, from: 1) == .begin(at: nil, forgets: false, proves: []))
    #expect(try plan(open, from: 6) == .copyAll(.init(isLost: true, forgets: false, proves: [.noTables])))
    // Apply had a checkpoint since, so the target was replaced.
    let begun = CopyRequest.Asked(behind: 7, at: place, isBegun: true)
    #expect(
      try plan(begun, from: 4) == .copyAll(.init(isLost: true, forgets: false, proves: [.noRows, .noTables])))
    #expect(try plan(begun, from: 1) == .begin(at: nil, forgets: false, proves: [.noRows]))
  }

  @Test func `an apply waits for the rest of another node's trail, also for a copy`() throws {
    let ahead = try Self.at(10)
    for request: StartPlan.Request in [.none, .ordered] {
      #expect(
        StartPlan(ahead, trail: try Self.trail(), request: request, rules: .init(existing: nil, awaitsTrail: true))
          == .refuse(.ahead))
    }
    #expect(StartPlan(ahead, trail: try Self.trail(), request: .none, rules: Self.careful) == .resume)
  }
}
