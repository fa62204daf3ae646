import Glibc

extension File {
  /// Returns the content of a whole file as UTF-8.
  ///
  /// - Parameter bytesMax: The largest file that is read, in bytes.
  /// - Throws: EFBIG for a larger file, even if the file becomes larger only while it is read.
  package static func text(_ path: String, bytesMax: Int = 16 << 20) throws(FileError) -> String {
    let file = try File(path, .read)
    let size = try file.size
    guard size <= UInt64(bytesMax) else { throw FileError(code: EFBIG, operation: "read", path: path) }
    // One byte more than the size, so that a file that grew shows.
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(size) + 1, alignment: 1)
    defer { buffer.deallocate() }
    let count = try file.read(into: buffer, at: 0)
    guard count <= Int(size) else { throw FileError(code: EFBIG, operation: "read", path: path) }
    return String(decoding: UnsafeRawBufferPointer(buffer).prefix(count), as: UTF8.self)
  }

  /// Replaces the content of a file with a text, atomically. A new file gets `permissions`, less the umask.
  package static func replace(_ path: String, text: String, permissions: UInt32) throws(FileError) {
    let fresh = path + ".new"
    if Folder.exists(fresh) { try Folder.remove(fresh) }
    let file = try File(fresh, .create, permissions: permissions)
    let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: text.utf8.count, alignment: 1)
    defer { bytes.deallocate() }
    bytes.copyBytes(from: text.utf8)
    try file.write(UnsafeRawBufferPointer(bytes), at: 0)
    try file.sync()
    try file.close()
    try Folder.rename(fresh, to: path)
    try Folder.sync(Folder.parent(of: path))
  }
}
