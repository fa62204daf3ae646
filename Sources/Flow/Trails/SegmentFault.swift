import Changes

/// An error in the bytes of a segment, with its position.
struct SegmentFault: Error {
  enum Kind {
    /// The header or a block is not whole, or does not fit the blocks before it. An interrupted write can cause this,
    /// but only after the durable end of the trail.
    case torn
    /// A whole block has impossible content, which no interrupted write can cause.
    case content
    /// A later version of the trail format wrote the segment.
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
