import Changes
import Glibc
import Synchronization
import SystemKit

/// Wakes threads when the durable mark of a trail moves, with one thread and one inotify(7) descriptor for all trails.
///
///     let ear = try TrailNotifier().listen(folder: folder)
package final class TrailNotifier: Sendable {
  /// A listener for the durable mark of one trail. A notification that arrives between two waits is not lost.
  package final class Listener: Sendable {
    private let descriptor: Int32
    private let writing: Int32
    private let watch: Int32
    private let core: Core

    fileprivate init(_ core: Core, _ path: String) throws(FileError) {
      self.core = core
      var ends: [Int32] = [-1, -1]
      if pipe(&ends) < 0 { throw FileError(code: errno, operation: "pipe", path: path) }
      for end in ends {
        _ = fcntl(end, F_SETFD, FD_CLOEXEC)
        _ = fcntl(end, F_SETFL, O_NONBLOCK)
      }
      (descriptor, writing) = (ends[0], ends[1])
      do throws(FileError) { watch = try core.add(writing, path) } catch {
        for end in ends { close(end) }
        throw error
      }
    }

    deinit {
      core.remove(writing, watch)
      close(descriptor)
      close(writing)
    }

    /// Waits for a notification. Returns false if the time is over or `stop` was set.
    package func wait(milliseconds: Int, stop: StopSignal) -> Bool {
      var polled = [
        pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
        pollfd(fd: stop.descriptor, events: Int16(POLLIN), revents: 0),
      ]
      _ = poll(&polled, 2, Int32(clamping: milliseconds))
      Pulse.beat()
      var rings = [UInt8](repeating: 0, count: 64)
      return polled[0].revents != 0 && read(descriptor, &rings, rings.count) > 0 && !stop.isSet
    }
  }

  fileprivate final class Core: Sendable {
    private struct Watch {
      let path: String
      var listeners: Set<Int32>
    }

    private let inotify: Int32
    private let watches = Mutex<[Int32: Watch]>([:])

    init() throws(FileError) {
      inotify = inotify_init1(Int32(IN_NONBLOCK | IN_CLOEXEC))
      if inotify < 0 { throw FileError(code: errno, operation: "inotify_init1", path: "") }
    }

    deinit { close(inotify) }

    func add(_ listener: Int32, _ path: String) throws(FileError) -> Int32 {
      let (watch, code) = watches.withLock { watches in
        let watch = inotify_add_watch(inotify, path, UInt32(IN_MODIFY | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF))
        let code = errno
        if watch >= 0 { watches[watch, default: Watch(path: path, listeners: [])].listeners.insert(listener) }
        return (watch, code)
      }
      if watch < 0 { throw FileError(code: code, operation: "inotify_add_watch", path: path) }
      return watch
    }

    func remove(_ listener: Int32, _ watch: Int32) {
      watches.withLock { watches in
        watches[watch]?.listeners.remove(listener)
        if watches[watch]?.listeners.isEmpty == true {
          watches[watch] = nil
          inotify_rm_watch(inotify, watch)
        }
      }
    }

    func listen(until stop: StopSignal) {
      while !stop.isSet {
        var polled = [
          pollfd(fd: inotify, events: Int16(POLLIN), revents: 0),
          pollfd(fd: stop.descriptor, events: Int16(POLLIN), revents: 0),
        ]
        _ = poll(&polled, 2, -1)
        for watch in events() { ring(watch) }
      }
    }

    private func events() -> Set<Int32> {
      var seen: Set<Int32> = []
      let headerBytes = MemoryLayout<inotify_event>.size
      withUnsafeTemporaryAllocation(byteCount: 16384, alignment: 8) { buffer in
        let n = read(inotify, buffer.baseAddress, buffer.count)
        var offset = 0
        while offset + headerBytes <= n {
          let event = buffer.loadUnaligned(fromByteOffset: offset, as: inotify_event.self)
          seen.insert(event.wd)
          offset += headerBytes + Int(event.len)
        }
      }
      return seen
    }

    /// Wakes the listeners of an inotify watch; all listeners if events were lost (negative watch).
    private func ring(_ watch: Int32) {
      watches.withLock { watches in
        var one: UInt8 = 1
        for (number, entry) in watches where watch < 0 || number == watch {
          // A full pipe is readable already, so a failed write changes nothing.
          for listener in entry.listeners { _ = write(listener, &one, 1) }
        }
      }
    }
  }

  private let core: Core
  private let stop = StopSignal()

  /// Creates a notifier without listeners.
  ///
  /// - Throws: A `FileError` if the system allows no more inotify descriptors; `io-failed` if no thread can be
  ///   started.
  package init() throws {
    let core = try Core()
    self.core = core
    let stop = stop
    try detached { core.listen(until: stop) }
  }

  deinit { stop.set() }

  /// Returns a listener for the trail in a folder. A caller that reads the trail afterwards misses no later change.
  ///
  /// - Throws: `trail-missing` if there is no trail in the folder.
  package func listen(folder: String) throws -> Listener {
    do throws(FileError) { return try Listener(core, folder + "/durable") } catch {
      let name = Folder.lastName(of: folder)
      guard error.isMissing else { throw error.asCairnError(doing: "wait for trail \(name)") }
      throw CairnError(
        .trailMissing, "there is no trail \(name) here yet",
        hint: "it appears when its capture has started here, or a pump has brought it", remedy: .retry,
        context: ["trail": name])
    }
  }
}
