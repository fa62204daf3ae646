import Glibc

extension FolderWatch {
  /// Clears the reported changes. Returns true if `isMeant` accepts the file name of a change, or if a change has no
  /// name.
  package func drain(where isMeant: (String) -> Bool) -> Bool {
    var seen = false
    let headerBytes = MemoryLayout<inotify_event>.size
    withUnsafeTemporaryAllocation(byteCount: 16384, alignment: 8) { buffer in
      while true {
        let n = read(descriptor, buffer.baseAddress, buffer.count)
        if n < 0, errno == EINTR { continue }
        guard n > 0 else { return }
        var offset = 0
        while offset + headerBytes <= n {
          let event = buffer.loadUnaligned(fromByteOffset: offset, as: inotify_event.self)
          let name = UnsafeRawBufferPointer(
            rebasing: buffer[offset + headerBytes..<offset + headerBytes + Int(event.len)])
          let text = String(decoding: name.prefix { $0 != 0 }, as: UTF8.self)
          if event.len == 0 || isMeant(text) { seen = true }
          offset += headerBytes + Int(event.len)
        }
      }
    }
    return seen
  }
}
