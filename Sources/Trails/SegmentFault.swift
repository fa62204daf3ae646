import Changes

/// What is wrong with the bytes of a segment, and where.
struct SegmentFault: Error {
  enum Kind {
    /// The header or a block is not whole or does not fit what stands before it: behind the durable mark a torn tail.
    case torn
    /// A whole block says what cannot be: never a torn tail.
    case content
    /// Written by a later version of the format.
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
