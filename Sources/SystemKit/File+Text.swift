extension File {
  /// The whole of a small file, up to `bytesMax`, as UTF-8.
  package static func text(_ path: String, bytesMax: Int = 1 << 20) throws(FileError) -> String {
    let file = try File(path, .read)
    let buffer = UnsafeMutableRawBufferPointer.allocate(
      byteCount: min(Int(clamping: try file.size), bytesMax), alignment: 1)
    defer { buffer.deallocate() }
    let count = try file.read(into: buffer, at: 0)
    return String(decoding: UnsafeRawBufferPointer(buffer).prefix(count), as: UTF8.self)
  }

  /// As ``replace(_:with:)``, with a text and the permissions that the new file gets, less the umask.
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
