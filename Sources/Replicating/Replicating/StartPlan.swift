import Changes
import Mapping
import Trails

/// The decision how an apply starts, from what its target and its trail hold. Pure: the hosts read the values before,
/// and act afterwards.
///
///     StartPlan(checkpoint, trail: extent, request: .none, rules: rules)   // .resume
package enum StartPlan: Equatable, Sendable {
  /// Apply continues at the target's checkpoint.
  case resume
  /// No checkpoint counts. Apply reads the trail from `at`, or from its beginning if `at` is nil.
  /// - `forgets`: Whether the target has a checkpoint of another trail, which must be removed.
  case begin(at: Checkpoint?, forgets: Bool, proves: Set<Proof>)
  /// All tables are copied again.
  case copyAll(Copy)
  case refuse(Refusal)

  /// A fact about the target that the host must prove before anything is written.
  package enum Proof: Hashable, Sendable {
    /// The target's tables hold no rows that the copy would overwrite.
    case noRows
    /// The target knows no tables of the trail.
    case noTables
  }

  /// A refresh of all tables.
  package struct Copy: Equatable, Sendable {
    /// Whether the trail no longer has what the target needs. If false, apply can read on until the refresh begins.
    package var isLost: Bool
    /// Whether the target's checkpoint and quarantine are obsolete.
    package var forgets: Bool
    package var proves: Set<Proof> = []

    package init(isLost: Bool, forgets: Bool, proves: Set<Proof> = []) {
      (self.isLost, self.forgets, self.proves) = (isLost, forgets, proves)
    }
  }

  package enum Refusal: Equatable, Sendable {
    /// The target was filled from a trail that is not here.
    case foreign
    /// The target continues at a position that is purged.
    case purged
    /// The target continues after the end of this copy of the trail.
    case ahead
  }

  /// The request for a copy of everything.
  package enum Request: Equatable, Sendable {
    case none
    /// The operator ordered a copy, and no start has seen the order yet.
    case ordered
    /// An earlier start has asked for the copy.
    case open(CopyRequest.Asked)
  }

  /// The extent of the trail that is here.
  package struct Extent: Equatable, Sendable {
    let id: TrailID
    let first: Position
    let end: Position
    /// Whether the trail still has its first segment.
    var isWhole: Bool { first.segment <= 1 }

    package init(_ id: TrailID, from first: Position, to end: Position) {
      (self.id, self.first, self.end) = (id, first, end)
    }
    package init(_ info: TrailInfo) { self.init(info.id, from: info.firstPosition, to: info.end.position) }
  }

  /// The settings of the host. Example: `Rules(existing: .keep)`.
  package struct Rules: Sendable {
    /// The treatment of rows that the target has; nil if the operator chose none.
    var existing: ExistingRows?
    /// Whether capture copies the rows that existed when it began.
    var copiesRows = true
    /// Whether a checkpoint of another trail is removed. If false, it is a reason to refuse.
    var replacesForeign = false
    /// Whether a target whose position is purged gets a copy. If false, it is a reason to refuse.
    var copiesPurged = false
    /// Whether the trail comes from another node, so its end may arrive later.
    var awaitsTrail = false

    package init(
      existing: ExistingRows?, copiesRows: Bool = true, replacesForeign: Bool = false, copiesPurged: Bool = false,
      awaitsTrail: Bool = false
    ) {
      (self.existing, self.copiesRows, self.replacesForeign) = (existing, copiesRows, replacesForeign)
      (self.copiesPurged, self.awaitsTrail) = (copiesPurged, awaitsTrail)
    }
  }

  /// Decides how an apply starts.
  /// - Parameter checkpoint: The target's position; nil if it has none under the name of the trail.
  /// - Parameter trail: The extent of the trail; nil if there is no trail yet.
  package init(_ checkpoint: Checkpoint?, trail: Extent?, request: Request, rules: Rules) {
    let isForeign = checkpoint.map { $0.trail != trail?.id } ?? false
    // The checkpoint, if it is a position in this trail.
    let own = isForeign ? nil : checkpoint
    let isPurged = own.map { $0.position.segment < trail?.first.segment ?? 0 } ?? false
    if rules.awaitsTrail, let own, let trail, trail.end < own.position {
      self = .refuse(.ahead)
    } else if isForeign, !rules.replacesForeign, request != .ordered {
      self = .refuse(.foreign)
    } else if isPurged, !rules.copiesPurged, request != .ordered {
      self = .refuse(.purged)
    } else if isPurged || request == .ordered {
      let isLost = own == nil ? !(trail?.isWhole ?? true) : isPurged
      self = .copyAll(Copy(isLost: isLost, forgets: own == nil || isPurged))
    } else if own != nil {
      self = .resume
    } else {
      self = Self.first(trail, request, rules, forgets: isForeign)
    }
  }

  package var proves: Set<Proof> {
    switch self {
    case .begin(_, _, let proves): proves
    case .copyAll(let copy): copy.proves
    case .resume, .refuse: []
    }
  }

  /// Whether what the target knows of the trail is obsolete.
  package var forgets: Bool {
    switch self {
    case .begin(_, let forgets, _): forgets
    case .copyAll(let copy): copy.forgets
    case .resume, .refuse: false
    }
  }

  /// Whether the trail no longer has what the target needs.
  package var isLost: Bool { if case .copyAll(let copy) = self { copy.isLost } else { false } }

  /// Decides the start of an apply whose target has no position in the trail.
  private static func first(_ trail: Extent?, _ request: Request, _ rules: Rules, forgets: Bool) -> StartPlan {
    // A target for which a copy was ordered may still hold its earlier rows, if the copy has not begun.
    var asked: Checkpoint?
    if case .open(let open) = request, !open.isBegun { asked = open.at }
    // A trail without copies overwrites nothing.
    let isProved = rules.existing == nil && asked == nil && rules.copiesRows
    let proves: Set<Proof> = isProved ? [.noRows] : []
    guard let trail, !trail.isWhole else { return .begin(at: nil, forgets: forgets, proves: proves) }
    if let asked, asked.position >= trail.first { return .begin(at: asked, forgets: forgets, proves: proves) }
    return .copyAll(Copy(isLost: true, forgets: forgets, proves: proves.union([.noTables])))
  }
}
