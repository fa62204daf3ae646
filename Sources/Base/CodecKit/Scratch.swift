import Glibc

/// Reusable memory for one value at a time, which grows as needed.
///
///     var scratch = Scratch(capacity: 64)
///     let buffer = scratch.bytes(1000)   // grows
package struct Scratch: ~Copyable {
  // Memory above this size is mapped, because malloc(3) might keep what is released.
  private static let mappedAbove = 1 << 20

  private var base: UnsafeMutableRawPointer
  package private(set) var capacity: Int

  package init(capacity: Int = 4096) {
    base = Self.allocate(capacity)
    self.capacity = capacity
  }

  deinit { Self.deallocate(base, capacity) }

  /// Returns the first `count` bytes. If the memory grows, its content is lost and earlier pointers are invalid.
  package mutating func bytes(_ count: Int) -> UnsafeMutableRawBufferPointer {
    if count > capacity { replace(max(count, min(capacity * 2, 1 << 20))) }
    return UnsafeMutableRawBufferPointer(start: base, count: count)
  }

  /// Reduces the memory to `bytes` bytes, if it is larger. Earlier pointers are then invalid.
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
