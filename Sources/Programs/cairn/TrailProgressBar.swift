import SystemKit

/// A progress bar on standard error, if that is a terminal.
final class TrailProgressBar {
  private static let width = 40
  private let label: String
  private var shownAt: Int64 = 0
  private var isShown = false

  init(_ label: String) { self.label = label }

  func update(_ done: UInt64, _ total: UInt64) {
    guard Terminal.isErrorInteractive, total > 0 else { return }
    let now = Clock.monotonicMilliseconds
    guard now - shownAt >= 100 else { return }
    shownAt = now
    isShown = true
    let share = min(1, Double(done) / Double(total))
    let filled = Int(share * Double(Self.width))
    let bar = String(repeating: "█", count: filled) + String(repeating: "░", count: Self.width - filled)
    Terminal.write("\r\(label) \(bar) \(Int(share * 100)) % of \(TrailCommand.byteCount(total)) \u{1b}[K", to: 2)
  }

  func clear() { if isShown { Terminal.write("\r\u{1b}[K", to: 2) } }
}
