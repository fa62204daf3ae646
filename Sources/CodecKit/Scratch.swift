/// Memory for one passing value at a time: grows as needed, and is used again.
package struct Scratch: ~Copyable {
  private var base: UnsafeMutableRawPointer
  package private(set) var capacity: Int

  package init(capacity: Int = 4096) {
    base = .allocate(byteCount: capacity, alignment: 16)
    self.capacity = capacity
  }

  deinit { base.deallocate() }

  /// The first `count` bytes. When the memory has to grow, what was in it is lost; so are pointers of earlier calls.
  package mutating func bytes(_ count: Int) -> UnsafeMutableRawBufferPointer {
    if count > capacity { replace(max(count, min(capacity * 2, 1 << 20))) }
    return UnsafeMutableRawBufferPointer(start: base, count: count)
  }

  /// Gives memory above `bytes` back after an unusually large value; pointers of earlier calls are lost then.
  package mutating func shrink(above bytes: Int) { if capacity > bytes { replace(bytes) } }

  private mutating func replace(_ bytes: Int) {
    base.deallocate()
    base = .allocate(byteCount: bytes, alignment: 16)
    capacity = bytes
  }
}
