import Changes
import Glibc
import Synchronization

/// The inotify(7) descriptor of the process, and the thread that passes its events on. The system grants a user 128
/// descriptors by default, which one daemon with a database per tenant would use up.
final class SharedInotify: Sendable {
  /// The wake signals of all watches of one file or folder, as descriptors.
  private struct Watched {
    var all: Set<Int32> = []
    var byName: [NameKey: Set<Int32>] = [:]

    var isEmpty: Bool { all.isEmpty && byName.isEmpty }

    mutating func add(_ signal: Int32, _ names: Set<NameKey>?) {
      guard let names else { return _ = all.insert(signal) }
      for name in names { byName[name, default: []].insert(signal) }
    }

    mutating func remove(_ signal: Int32, _ names: Set<NameKey>?) {
      guard let names else { return _ = all.remove(signal) }
      for name in names {
        byName[name]?.remove(signal)
        if byName[name]?.isEmpty == true { byName[name] = nil }
      }
    }

    func wakeAll() {
      for signal in all { WakeSignal.set(signal) }
      for signals in byName.values { for signal in signals { WakeSignal.set(signal) } }
    }

    func wake(_ name: NameKey) {
      for signal in all { WakeSignal.set(signal) }
      for signal in byName[name] ?? [] { WakeSignal.set(signal) }
    }
  }

  private static let instance = Mutex<SharedInotify?>(nil)
  private static let events = UInt32(
    IN_MODIFY | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF)

  private let descriptor: Int32
  private let watched = Mutex<[Int32: Watched]>([:])

  /// Returns the one of the process. The first call makes it, and its thread, which goes on to the end of the process.
  static func get() throws(FileError) -> SharedInotify {
    try instance.withLock { instance throws(FileError) in
      if let instance { return instance }
      let made = try SharedInotify()
      do throws(CairnError) { try detached { made.run() } } catch {
        throw FileError(code: EAGAIN, operation: "pthread_create", path: "")
      }
      instance = made
      return made
    }
  }

  private init() throws(FileError) {
    descriptor = inotify_init1(Int32(IN_CLOEXEC))
    if descriptor < 0 { throw FileError(code: errno, operation: "inotify_init1", path: "") }
  }

  deinit { close(descriptor) }

  /// Wakes a signal at each change from now on. Returns the number by which the kernel names the watched file.
  func add(_ signal: Int32, _ path: String, _ names: Set<NameKey>?) throws(FileError) -> Int32 {
    let (watch, code) = watched.withLock { watched in
      let watch = inotify_add_watch(descriptor, path, Self.events)
      let code = errno
      if watch >= 0 { watched[watch, default: Watched()].add(signal, names) }
      return (watch, code)
    }
    if watch < 0 { throw FileError(code: code, operation: "inotify_add_watch", path: path) }
    return watch
  }

  func remove(_ signal: Int32, _ watch: Int32, _ names: Set<NameKey>?) {
    watched.withLock { watched in
      watched[watch]?.remove(signal, names)
      if watched[watch]?.isEmpty == true {
        watched[watch] = nil
        inotify_rm_watch(descriptor, watch)
      }
    }
  }

  private func run() {
    let headerBytes = MemoryLayout<inotify_event>.size
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 65_536, alignment: 8)
    defer { buffer.deallocate() }
    while true {
      let n = read(descriptor, buffer.baseAddress, buffer.count)
      if n < 0, errno != EINTR { usleep(100_000) }
      watched.withLock { watched in
        var offset = 0
        while offset + headerBytes <= n {
          let event = buffer.loadUnaligned(fromByteOffset: offset, as: inotify_event.self)
          let name = buffer[offset + headerBytes..<offset + headerBytes + Int(event.len)].prefix { $0 != 0 }
          Self.pass(event, name, &watched)
          offset += headerBytes + Int(event.len)
        }
      }
    }
  }

  private static func pass(
    _ event: inotify_event, _ name: Slice<UnsafeMutableRawBufferPointer>, _ watched: inout [Int32: Watched]
  ) {
    guard event.wd >= 0 else {
      // The queue of events was full, so any of them may be missing.
      for entry in watched.values { entry.wakeAll() }
      return
    }
    guard let entry = watched[event.wd] else { return }
    if name.isEmpty { entry.wakeAll() } else { entry.wake(NameKey(String(decoding: name, as: UTF8.self))) }
  }
}
