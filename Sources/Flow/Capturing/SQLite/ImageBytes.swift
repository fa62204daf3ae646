import Changes
import Glibc

extension UnsafeRawBufferPointer {
  func isEqual(to other: UnsafeRawBufferPointer) -> Bool {
    guard count == other.count else { return false }
    guard count > 0, let a = baseAddress, let b = other.baseAddress else { return true }
    return memcmp(a, b, count) == 0
  }

  /// The part of these bytes that holds the first columns of a row.
  func image(columns: Int) throws -> UnsafeRawBufferPointer {
    var reader = ByteReader(self)
    for _ in 0..<columns { _ = try reader.readColumn() }
    return UnsafeRawBufferPointer(rebasing: self[0..<reader.offset])
  }
}
