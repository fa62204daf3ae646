import Changes
import Configuring
import ControlAPI

/// The log messages about readers that expire, and about captures that pause because the trails exceed their disk
/// limit.
struct BudgetWords {
  private let plan: RetentionPlan
  private let limits: Configuration.Limits

  init(_ plan: RetentionPlan, _ limits: Configuration.Limits) { (self.plan, self.limits) = (plan, limits) }

  private var allowed: String { Size.text(bytes: limits.diskBytes ?? 0) }
  private func size(_ bytes: UInt64) -> String { Size.text(bytes: Int64(clamping: bytes)) }

  // MARK: A reader is given up

  func expiry(of id: RetentionPlan.ReaderID) -> String {
    let why =
      plan.expiredForRoom.contains(id)
      ? "the trails hold \(size(plan.bytesBefore)), [limits] disk allows \(allowed), and it lags most"
      : "it has lagged longer than [limits] retain allows (\(retain))"
    let next =
      id.name.kind == .apply
      ? "its missed changes are copied when it returns"
      : "its copy starts again, with all tables, when it returns"
    return "no longer holds trail \(id.trail): \(why); \(next)"
  }

  func expiryHint(_ id: RetentionPlan.ReaderID) -> String {
    let limit = plan.expiredForRoom.contains(id) ? "disk" : "retain"
    return
      "see in 'cairn status' why \(id.name) does not continue; to keep more for it, raise [limits] \(limit) and reload"
  }

  private var retain: String { Lag.text(milliseconds: Double(limits.retain?.milliseconds ?? 0)) }

  // MARK: History gives way

  /// - Parameter since: The beginning of the history that is left, µs since 1970 UTC.
  func shortened(_ trail: String, _ keep: Configuration.History, since: Int64) -> String {
    "trail \(trail) keeps its history since \(UTCTime(since)) only, instead of \(keep.text): the trails hold \(size(plan.bytesBefore)), and a disk limit\(limits.diskBytes == nil ? "" : " (\(allowed) for all trails)") leaves no room for more"
  }

  func shortenedHint(_ trail: String) -> String {
    "raise [limits] disk, or 'disk' of the peer that brings the trail, or lower 'keep' in its section [trail.NAME], and reload"
  }

  // MARK: Captures rest

  var pause: String {
    "the trails hold \(size(plan.bytes)), [limits] disk allows \(allowed), and no more can be deleted: captures pause\(held)"
  }

  // The trails whose segments cannot be deleted, each with the readers that still need them.
  private var held: String {
    let parts = plan.holders.sorted { $0.key < $1.key }.map { trail, readers in
      readers.isEmpty
        ? "\(trail) is kept, as nothing reads it here"
        : "\(trail) is needed by \(readers.map(\.description).joined(separator: ", "))"
    }
    return parts.isEmpty ? "" : "; " + parts.joined(separator: ", ")
  }

  var pauseHint: String {
    let isUnread = plan.holders.values.contains { $0.isEmpty }
    let retain = isUnread ? "; a trail without readers is kept for [limits] retain" : ""
    return
      "see in 'cairn status' why these workers do not continue, or raise [limits] disk and reload\(retain); meanwhile changes wait in the sources"
  }
}
