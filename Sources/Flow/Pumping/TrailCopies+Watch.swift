import Changes
import SystemKit
import Trails

extension TrailCopies {
  /// Starts to watch the durable mark of a trail. A caller that reads the trail afterwards misses no later change.
  ///
  /// - Throws: `trail-missing` if there is no such trail.
  func watch(_ trail: TrailName) throws -> FolderWatch {
    do { return try Trail.watch(folder: folder(trail)) } catch let error as CairnError where error.code == .trailMissing
    {
      throw CairnError(
        .trailMissing, "there is no trail \(trail) here yet",
        hint: "it appears when its capture has started here, or a pump has brought it", remedy: .retry,
        context: ["trail": trail.description])
    }
  }
}
