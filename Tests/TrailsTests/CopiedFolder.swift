import Foundation

/// A copy of a folder of plain files, in place of what was there.
func copyFolder(_ from: String, _ to: String) throws {
  try? FileManager.default.removeItem(atPath: to)
  try FileManager.default.copyItem(atPath: from, toPath: to)
}
