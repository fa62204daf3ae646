/// One change of a sale, by its key.
enum SaleChange {
  case insert(Int)
  /// Updates till and price.
  case update(Int)
  case delete(Int)

  enum Kind: String { case insert, update, delete }

  var kind: Kind {
    switch self {
    case .insert: .insert
    case .update: .update
    case .delete: .delete
    }
  }

  var sale: Sale {
    switch self {
    case .insert(let id), .update(let id), .delete(let id): Sale(id: id)
    }
  }
}

/// The changes that a program makes to the table while cairn is off.
struct Backlog {
  /// Rows that are there before, with keys from 1.
  let rows: Int
  let changes: [SaleChange]
  /// Changes that commit together.
  let perTransaction: Int

  init(_ workload: Workload, _ options: BenchOptions) {
    let count = options.scaled(500_000)
    switch workload {
    case .scattered:
      // One transaction in five deletes.
      var random = Seeded(42)
      var keys = Array(1...count)
      keys.shuffle(using: &random)
      rows = count
      changes = keys.prefix(options.scaled(250_000)).enumerated().map { number, key in
        number / 100 % 5 == 4 ? .delete(key) : .update(key)
      }
      perTransaction = 100
    case .oneTransaction:
      rows = count
      changes = (1...count).map { .update($0) }
      perTransaction = count
    default:
      rows = 0
      changes = (1...count).map { .insert($0) }
      perTransaction = 100
    }
  }

  /// The changes grouped by kind, so that they fit into arrays and long transactions of one statement.
  var grouped: [SaleChange] {
    changes.filter { $0.kind != .delete } + changes.filter { $0.kind == .delete }
  }
}
