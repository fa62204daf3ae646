import Glibc

/// Memory for one passing value at a time: grows as needed, and is used again.
///
/// Memory above 1 MiB is mapped for itself, so the system has it back as soon as it is given back.
package struct Scratch: ~Copyable {
  /// Larger memory is mapped; malloc(3) might keep it.
  private static let mappedAbove = 1 << 20

  private var base: UnsafeMutableRawPointer
  package private(set) var capacity: Int

  package init(capacity: Int = 4096) {
    base = Self.allocate(capacity)
    self.capacity = capacity
  }

  deinit { Self.deallocate(base, capacity) }

  /// The first `count` bytes. When the memory has to grow, what was in it is lost; so are pointers of earlier calls.
  package mutating func bytes(_ count: Int) -> UnsafeMutableRawBufferPointer {
    if count > capacity { replace(max(count, min(capacity * 2, 1 << 20))) }
    return UnsafeMutableRawBufferPointer(start: base, count: count)
  }

  /// Gives memory above `bytes` back after an unusually large value; pointers of earlier calls are lost then.
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
