import Glibc

/// Reusable memory for one value at a time; it grows as needed.
///
/// Memory above 1 MiB is mapped on its own, so releasing it returns it to the system at once.
package struct Scratch: ~Copyable {
  /// The size in bytes above which memory is mapped instead of taken from malloc(3), which might keep released memory.
  private static let mappedAbove = 1 << 20

  private var base: UnsafeMutableRawPointer
  package private(set) var capacity: Int

  package init(capacity: Int = 4096) {
    base = Self.allocate(capacity)
    self.capacity = capacity
  }

  deinit { Self.deallocate(base, capacity) }

  /// Returns the first `count` bytes. If the memory has to grow, its content is lost and pointers from earlier calls
  /// are invalid.
  package mutating func bytes(_ count: Int) -> UnsafeMutableRawBufferPointer {
    if count > capacity { replace(max(count, min(capacity * 2, 1 << 20))) }
    return UnsafeMutableRawBufferPointer(start: base, count: count)
  }

  /// Reduces the memory to `bytes` bytes, if it is larger; pointers from earlier calls are then invalid.
  package mutating func shrink(above bytes: Int) { if capacity > bytes { replace(bytes) } }

  private mutating func replace(_ bytes: Int) {
    Self.deallocate(base, capacity)
    base = Self.allocate(bytes)
    capacity = bytes
  }

  private static func allocate(_ bytes: Int) -> UnsafeMutableRawPointer {
    guard bytes > mappedAbove else { return .allocate(byteCount: bytes, alignment: 16) }
    let memory = mmap(nil, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    guard let memory, memory != MAP_FAILED else { fatalError("no memory for \(bytes) bytes") }
    return memory
  }

  private static func deallocate(_ base: UnsafeMutableRawPointer, _ bytes: Int) {
    if bytes > mappedAbove { munmap(base, bytes) } else { base.deallocate() }
  }
}
