import Changes

/// An error in the bytes of a segment, with its position.
struct SegmentFault: Error {
  enum Kind {
    /// The header or a block is not whole, or does not fit the trail. After the durable end, an interrupted write can
    /// cause this.
    case torn
    /// A whole block has impossible content, which no interrupted write can cause.
    case content
    case version
  }

  let kind: Kind
  let position: Position
  let problem: String

  init(_ kind: Kind, _ position: Position, _ problem: String) {
    self.kind = kind
    self.position = position
    self.problem = problem
  }
}
