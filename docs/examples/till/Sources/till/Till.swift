// A till that sells whether there is a line or not, and synchronises with PostgreSQL when there is one.
//
//     till FILE PEER NODE open           once: tables and items come from headquarters
//     till FILE PEER NODE sell ITEM N    sells, also without a line
//     till FILE PEER NODE sync           brings sales up, and new items and prices down
//     till FILE PEER NODE day N          a busy day: N sales at random, synchronised meanwhile

import CairnCapture
import Glibc

@main
struct Till {
  let shop: CapturedDatabase
  let line: Synchronizer

  init(_ file: String, _ peer: String, _ node: String) throws {
    shop = try CapturedDatabase(path: file, node: node)
    // Nothing is sold that there is not.
    try shop.execute("PRAGMA foreign_keys = ON")
    var options = Synchronizer.Options()
    // What all tills and headquarters did to it adds up.
    options.columnConflicts = ["item.stock": "delta"]
    line = try Synchronizer(shop, with: peer, options: options)
  }

  static func main() async {
    let words = Array(CommandLine.arguments.dropFirst())
    guard words.count >= 4 else {
      print("usage: till FILE PEER NODE open | sell ITEM PIECES | sync | day SALES")
      exit(64)
    }
    do {
      let till = try Till(words[0], words[1], words[2])
      switch (words[3], words.dropFirst(4).first, words.dropFirst(5).first.flatMap { Int($0) }) {
      case ("open", nil, _): try till.open()
      case ("sell", let item?, let pieces?): print("sold \(try till.sell(item, pieces))")
      case ("sync", nil, _): try till.synchronize()
      case ("day", let sales?, _): try await till.day(Int(sales) ?? 100)
      default:
        print("till: there is no '\(words[3])', or a word is missing after it")
        exit(64)
      }
      try till.shop.close()
    } catch {
      print("till: \(error)")
      exit(1)
    }
  }

  func open() throws {
    let outcome = try line.initialize()
    print("open: \(outcome.received) rows came down")
  }

  /// One transaction: the sale, and what it takes off the shelf. Returns the number of the sale.
  @discardableResult
  func sell(_ item: String, _ pieces: Int) throws -> String {
    let id = Self.newID()
    try shop.transaction { db in
      try db.execute(
        "INSERT INTO sale (id, till, item, pieces) VALUES (?, ?, ?, ?)", id, shop.node, item, pieces)
      try db.execute("UPDATE item SET stock = stock - ? WHERE name = ?", pieces, item)
    }
    return id
  }

  func synchronize() throws {
    do {
      let outcome = try line.synchronize()
      print("sync: \(outcome.sent) rows up, \(outcome.received) down, \(outcome.conflicts) conflicts")
    } catch let error as SynchronizationError where error.kind == .unreachable {
      print("sync: no line; \(try line.pending.inFile.transactions) transactions wait")
    }
  }

  /// Sells in one task, and synchronises in another one.
  func day(_ sales: Int) async throws {
    let selling = Task.detached { [self] in
      for _ in 0..<sales {
        // What is printed is committed.
        print("sold \(try sell(["bread", "milk", "tea"].randomElement() ?? "tea", Int.random(in: 1...3)))")
        fflush(nil)
        try await Task.sleep(for: .milliseconds(2))
      }
    }
    let synchronizing = Task { while !Task.isCancelled { try await line.synchronize() } }
    try await selling.value
    synchronizing.cancel()
    _ = await synchronizing.result
    try synchronize()
  }

  /// A random UUID.
  private static func newID() -> String {
    var bytes = (0..<16).map { _ in UInt8.random(in: 0...255) }
    bytes[6] = bytes[6] & 0x0f | 0x40
    bytes[8] = bytes[8] & 0x3f | 0x80
    let digits = bytes.map { byte in (byte < 16 ? "0" : "") + String(byte, radix: 16) }.joined()
    var text = ""
    for (index, digit) in digits.enumerated() {
      if [8, 12, 16, 20].contains(index) { text.append("-") }
      text.append(digit)
    }
    return text
  }
}
