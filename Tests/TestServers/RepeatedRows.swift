import Foundation

/// Makes a table of an SQLite file seem to have its rows 600 times, or 360,000 times with two levels. The page `root`
/// has the rows. Each level of the table's B-tree names it some 600 times.
///
/// Source: https://sqlite.org/fileformat2.html
package func repeatRows(onPage root: Int, in path: String, levels: Int) throws {
  var bytes = Array(try Data(contentsOf: URL(fileURLWithPath: path)))
  let size = Int(bytes[16]) << 8 | Int(bytes[17])
  let page = size == 1 ? 65536 : size
  let leaf = Array(bytes[(root - 1) * page..<root * page])
  guard leaf[0] == 13 else { throw TestFailure("page \(root) is no leaf") }
  func number(_ value: Int, _ count: Int) -> [UInt8] { (0..<count).reversed().map { UInt8(value >> ($0 * 8) & 255) } }
  func inner(_ child: Int) -> [UInt8] {
    var content = [UInt8](repeating: 0, count: page)
    let cells = (page - 12) / 8 - 4
    let head = number(cells, 2) + number(page - cells * 5, 2)
    content.replaceSubrange(0..<12, with: [5, 0, 0] + head + [0] + number(child, 4))
    for cell in 0..<cells {
      let place = page - (cell + 1) * 5
      content.replaceSubrange(place..<place + 5, with: number(child, 4) + [5])
      content.replaceSubrange(12 + 2 * cell..<14 + 2 * cell, with: number(place, 2))
    }
    return content
  }
  bytes += leaf
  for _ in 1..<levels { bytes += inner(bytes.count / page) }
  bytes.replaceSubrange((root - 1) * page..<root * page, with: inner(bytes.count / page))
  let count = bytes[24..<28].reduce(0) { $0 << 8 | Int($1) } + 1
  bytes.replaceSubrange(24..<32, with: number(count, 4) + number(bytes.count / page, 4))
  bytes.replaceSubrange(92..<96, with: number(count, 4))
  try Data(bytes).write(to: URL(fileURLWithPath: path))
}
