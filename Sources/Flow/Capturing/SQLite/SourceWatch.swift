import Changes
import Glibc
import SystemKit

/// Waits until an SQLite file may have new changes. A write event comes before the commit is readable, so the file is
/// then checked several times. Without an event, the file is checked every second.
struct SourceWatch {
  private static let ladderMicroseconds = [0, 100, 150, 250, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000]
  private static let slowMilliseconds: Int32 = 1000

  private let watch: FolderWatch
  private var rung: Int?

  init(database path: String) throws {
    let name = Folder.lastName(of: path)
    watch = try FolderWatch(
      Folder.parent(of: path), names: [name.nameKey, "\(name)-wal".nameKey, "\(name)-journal".nameKey])
  }

  var isClimbing: Bool { rung != nil }

  /// Blocks until it is time to check the file, `stop` is set, or `milliseconds` have passed.
  ///
  /// - Parameter found: Whether the previous check of the file found changes.
  mutating func wait(found: Bool, atMost milliseconds: Int32, stop: StopSignal) {
    Pulse.beat()
    if found { rung = nil }
    var delay = min(Self.slowMilliseconds, max(0, milliseconds))
    if let rung {
      let microseconds = Self.ladderMicroseconds[rung]
      // poll counts in milliseconds; a shorter wait need not watch for other events.
      if 1..<1000 ~= microseconds {
        usleep(UInt32(microseconds))
        return climb()
      }
      delay = min(delay, Int32(microseconds / 1000))
    }
    var entries = [
      pollfd(fd: watch.descriptor, events: Int16(POLLIN), revents: 0),
      pollfd(fd: stop.descriptor, events: Int16(POLLIN), revents: 0),
    ]
    let limit = Clock.monotonicMilliseconds + Int64(delay)
    while true {
      let left = Int32(clamping: max(0, limit - Clock.monotonicMilliseconds))
      let ready = poll(&entries, 2, left)
      if ready > 0, entries[0].revents != 0, watch.drain() {
        rung = 0
        return
      }
      if stop.isSet || ready == 0 { break }
    }
    climb()
  }

  private mutating func climb() {
    if let rung { self.rung = rung + 1 < Self.ladderMicroseconds.count ? rung + 1 : nil }
  }
}
