import SystemKit

/// The space on the file system of a download. A reserve stays free for the other programs of the device: 5 % of the
/// file system, 64 MiB at most.
///
///     DownloadRoom(free: 1_000_000, total: 10_000_000).usable   // 500000
package struct DownloadRoom: Sendable {
  private static let reserveMax: UInt64 = 64 << 20

  /// The bytes that may be written in addition.
  package let usable: UInt64
  package let reserve: UInt64

  package init(free: UInt64, total: UInt64) {
    reserve = min(total / 20, Self.reserveMax)
    usable = free - min(free, reserve)
  }

  /// Reads the space of a folder; nil if it is unknown.
  package init?(folder: String) {
    guard let free = Folder.freeBytes(folder), let total = Folder.totalBytes(folder) else { return nil }
    self.init(free: UInt64(max(0, free)), total: UInt64(max(0, total)))
  }

  package func fits(_ bytes: UInt64) -> Bool { bytes <= usable }
}
