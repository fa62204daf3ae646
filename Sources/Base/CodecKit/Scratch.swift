import Changes
import Glibc

/// Reusable memory for one value at a time, which grows as needed.
///
///     var scratch = Scratch(capacity: 64)
///     let buffer = try scratch.bytes(1000)   // grows
package struct Scratch: ~Copyable {
  // Memory above this size is mapped, because malloc(3) might keep what is released.
  private static let mappedAbove = 1 << 20

  private var base: UnsafeMutableRawPointer?
  /// The size of the memory at its next allocation, in bytes, unless more is requested.
  private var least: Int
  package private(set) var capacity = 0

  /// Creates the object. The memory is allocated at the first request.
  package init(capacity: Int = 4096) { least = capacity }

  deinit { Self.deallocate(base, capacity) }

  /// Returns the first `count` bytes. If the memory grows, its content is lost and earlier pointers are invalid.
  ///
  /// - Throws: `busy` if the system has no memory of this size. A later call may succeed.
  package mutating func bytes(_ count: Int) throws -> UnsafeMutableRawBufferPointer {
    if count > capacity || base == nil {
      let wanted = max(count, min(max(capacity * 2, least), 1 << 20))
      free()
      guard let memory = Self.allocate(wanted) else { throw Self.lacksMemory(wanted) }
      (base, capacity) = (memory, wanted)
    }
    return UnsafeMutableRawBufferPointer(start: base, count: count)
  }

  /// Frees the memory if it is larger than `bytes` bytes. Earlier pointers are then invalid.
  package mutating func shrink(above bytes: Int) {
    guard capacity > bytes else { return }
    free()
    least = bytes
  }

  private mutating func free() {
    Self.deallocate(base, capacity)
    (base, capacity) = (nil, 0)
  }

  private static func allocate(_ bytes: Int) -> UnsafeMutableRawPointer? {
    guard bytes > mappedAbove else { return malloc(max(bytes, 1)) }
    let memory = mmap(nil, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    return memory == MAP_FAILED ? nil : memory
  }

  private static func deallocate(_ base: UnsafeMutableRawPointer?, _ bytes: Int) {
    if bytes > mappedAbove { munmap(base, bytes) } else { Glibc.free(base) }
  }

  private static func lacksMemory(_ bytes: Int) -> CairnError {
    CairnError(
      .busy, "the system has no memory for \(bytes) bytes",
      hint: "Cairn tries again by itself; raise MemoryMax= of the unit, or end other programs, if that happens often",
      remedy: .retry)
  }
}
