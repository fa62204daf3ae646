import Changes

/// A version as the window keeps it; origins by their place in its list.
struct WindowEntry: Equatable {
  var origin: Int
  var number: UInt64
  var clock: UInt64
  var begin: Position
}
