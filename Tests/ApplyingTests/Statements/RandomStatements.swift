import Changes
import TestServers
import Testing

/// Statements of all kinds that a program may execute, drawn by chance.
struct RandomStatements: RandomNumberGenerator {
  private var random: Seeded
  private var lastShop: Int64 = 0

  init(seed: UInt64) { random = Seeded(seed) }

  mutating func next() -> UInt64 { random.next() }

  mutating func number(_ range: ClosedRange<Int64>) -> Value { .integer(.random(in: range, using: &self)) }
  mutating func word() -> Value {
    .text(["apple", "Birch", "it's", "ÄÖ ü", "a_b%c", "", "12", "Ant "].randomElement(using: &self) ?? "")
  }
  mutating func few() -> String {
    let from = Int64.random(in: 1...1100, using: &self)
    return "id BETWEEN \(from) AND \(from + .random(in: 0...30, using: &self))"
  }

  /// One statement, executed.
  mutating func execute(on source: SourceHistory) throws {
    switch Int.random(in: 0..<24, using: &self) {
    case 0: try source.execute("UPDATE item SET stock = stock + ? WHERE \(few())", [number(-5...9)], on: "item")
    case 1:
      try source.execute(
        "UPDATE item SET name = upper(name) || '-' || stock WHERE stock % 3 = ?2 AND \(few()) AND id > ?1",
        [number(0...9), number(0...2)], on: "item")
    case 2:
      let id = Int64.random(in: 2000...90_000, using: &self)
      try source.execute(
        "INSERT OR IGNORE INTO item(id, name, stock, weight, price) VALUES (?, :name, 3, 1.5, 2), (?, :name, -1, NULL, 0.75)",
        [.integer(id), word(), .integer(id + 1)], on: "item")
    case 3:
      lastShop += 1
      try source.execute(
        "INSERT INTO sale SELECT ?, id, id, lower(name) FROM item WHERE stock >= ? AND \(few())",
        [.integer(lastShop + 1000), number(0...5)], on: "sale")
    case 4:
      try source.execute(
        "INSERT INTO item(id, name, stock) VALUES (?, ?, ?) ON CONFLICT(id) DO UPDATE SET stock = stock + excluded.stock, name = excluded.name WHERE item.stock < 100",
        [number(1...1200), word(), number(1...9)], on: "item")
    case 5:
      try source.execute(
        "INSERT INTO sale(shop, number, item, note) SELECT 1, id, id, name FROM item WHERE \(few()) ON CONFLICT (shop, number) DO UPDATE SET note = excluded.note || '!' WHERE sale.item IS NOT NULL",
        on: "sale")
    case 6:
      try source.execute(
        "UPDATE item SET stock = s.n FROM (SELECT item, count(*) AS n FROM sale GROUP BY item) AS s WHERE s.item = item.id AND \(few())",
        on: "item")
    case 7:
      try source.execute(
        "UPDATE item SET weight = weight * 1.25 + stock, price = stock + 0.25 WHERE \(few()) AND EXISTS (SELECT 1 FROM sale WHERE sale.item = item.id)",
        on: "item")
    case 8:
      try source.execute(
        "DELETE FROM sale WHERE item IN (SELECT id FROM item WHERE stock < ? AND \(few()))", [number(0...5)], on: "sale"
      )
    case 9:
      try source.execute(
        "WITH many AS (SELECT item, max(number) AS n FROM sale GROUP BY item HAVING count(*) > 1) DELETE FROM sale WHERE EXISTS (SELECT 1 FROM many WHERE many.item = sale.item AND many.n = sale.number) AND shop = 1",
        on: "sale")
    case 10:
      try source.execute(
        "REPLACE INTO item(id, name, stock, at) VALUES (?, ?, 4, {now})", [number(1...1200), word()], on: "item")
    case 11:
      try source.execute(
        "INSERT OR IGNORE INTO sale(shop, number, item, note) SELECT 2, id, NULL, 'again' FROM item WHERE \(few())",
        on: "sale")
    case 12:
      try source.execute(
        "UPDATE item SET sold = NOT sold, at = {now} WHERE name LIKE 'A%' AND \(few()) RETURNING id", on: "item")
    case 13:
      try source.execute(
        "UPDATE item SET name = substr(name, 1, 4) || coalesce(at, '') WHERE \(few()) AND name <> ?", [word()],
        on: "item")
    case 14:
      try source.execute(
        "DELETE FROM item WHERE id > 1100 AND id NOT IN (SELECT item FROM sale WHERE item IS NOT NULL) AND stock > ?",
        [number(0...3)], on: "item")
    case 15:
      try source.execute(
        "DELETE FROM sale WHERE (SELECT stock FROM item WHERE item.id = sale.item) / 2 > ? AND shop > 1",
        [number(2...9)],
        on: "sale")
    case 16:
      try source.execute(
        "UPDATE item SET stock = CASE WHEN sold THEN 0 WHEN name IS NULL THEN -1 ELSE length(name) END, name = trim(name) WHERE \(few())",
        on: "item")
    case 17:
      try source.execute(
        "UPDATE sale SET note = upper(note) || ? WHERE shop = 1 AND note LIKE '%a%'", [word()], on: "sale")
    case 18:
      try source.execute(
        "DELETE FROM sale WHERE number IN (SELECT id FROM item ORDER BY name DESC, id LIMIT 3) AND shop = ?",
        [number(1...2)], on: "sale")
    // Statements that cannot be executed once more.
    case 19: try source.execute("UPDATE item SET stock = abs(random() % 10) WHERE \(few())", on: "item")
    case 20:
      try source.execute(
        "UPDATE item SET stock = (SELECT max(id) FROM item) % 7 WHERE \(few())", on: "item")
    case 21:
      try source.execute("UPDATE item SET name = printf('%05d', stock) WHERE \(few())", on: "item")
    // Many rows.
    case 22:
      let isWide = Int.random(in: 0..<4, using: &self) == 0
      try source.execute(
        "UPDATE item SET stock = stock + 1, weight = stock * 0.5\(isWide ? "" : " WHERE \(few())")", on: "item")
    default:
      let isWide = Int.random(in: 0..<4, using: &self) == 0
      try source.execute(
        "UPDATE item SET name = name || ?1 WHERE \(isWide ? "id > 0" : few()) AND length(name) < 20", [word()],
        on: "item")
    }
  }

  /// A transaction with savepoints; some of them are rolled back.
  mutating func transaction(on source: SourceHistory) throws {
    try source.database.execute("BEGIN")
    for _ in 0..<Int.random(in: 1...4, using: &self) {
      guard Int.random(in: 0..<4, using: &self) == 0 else {
        try execute(on: source)
        continue
      }
      let count = source.openCount
      try source.database.execute("SAVEPOINT s")
      for _ in 0..<Int.random(in: 1...3, using: &self) { try execute(on: source) }
      if Bool.random(using: &self) {
        try source.rollback(to: "s", keeping: count)
      } else {
        try source.database.execute("RELEASE s")
      }
    }
    try source.database.execute("COMMIT")
    try source.commit()
  }
}
