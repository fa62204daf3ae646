import SystemKit

/// A progress bar on standard error, if that is a terminal.
final class TrailProgressBar {
  private static let width = 40
  private let label: String
  private let unit: (UInt64) -> String
  private var shownAt: Int64 = 0
  private var isShown = false

  /// - Parameter unit: Returns the text for a total.
  init(_ label: String, unit: @escaping (UInt64) -> String = TrailCommand.byteCount) {
    (self.label, self.unit) = (label, unit)
  }

  func update(_ done: UInt64, _ total: UInt64) {
    guard Terminal.isErrorInteractive, total > 0 else { return }
    let now = Clock.monotonicMilliseconds
    guard now - shownAt >= 100 else { return }
    shownAt = now
    isShown = true
    let share = min(1, Double(done) / Double(total))
    let filled = Int(share * Double(Self.width))
    let bar = String(repeating: "█", count: filled) + String(repeating: "░", count: Self.width - filled)
    Terminal.write("\r\(label) \(bar) \(Int(share * 100)) % of \(unit(total).oneLine) \u{1b}[K", to: 2)
  }

  func clear() { if isShown { Terminal.write("\r\u{1b}[K", to: 2) } }
}
