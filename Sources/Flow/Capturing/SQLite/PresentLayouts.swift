import Changes

/// The layout that is in use for the table of each layout, found once for all of them.
///
///     PresentLayouts(layouts)[3]   // 8: the table of layout 3 now has layout 8; nil if it is no longer captured
struct PresentLayouts {
  private var ids: [Int64: Int64] = [:]

  init(_ layouts: [Int64: CaptureInstance]) {
    var next: [Int64: Int64] = [:]
    for layout in layouts.values { if let previous = layout.previous { next[previous] = layout.id } }
    // A layout has a higher id than the one before it.
    for id in layouts.keys.sorted(by: >) {
      ids[id] = layouts[id]?.ended == nil ? id : next[id].flatMap { ids[$0] }
    }
  }

  subscript(_ id: Int64) -> Int64? { ids[id] }
}
