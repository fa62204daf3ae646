import Changes
import Trails

/// A record that outlives the reader's block.
enum Seen: Equatable {
  case begin(TransactionHeader)
  case commit(UInt64, changes: UInt64)
  case schema(UInt64, TableSchema)
  case change(Operation, ChangeFlags, schema: UInt64, Version?, before: [Value?]?, after: [Value?]?)
  case refresh(Refresh)
  case row(schema: UInt64, [Value?])
  case waiting(schema: UInt64, [Value?], UInt64, String, UInt64)
  case ddl(DDL)
  case progress([UInt8], Int64)
  case sequence(SequenceState)
  case marker(UInt8, String)
  case statement(ExecutedStatement)
  case statementEnd(StatementEnd)
  case reserved(UInt8, [UInt8])

  init(_ record: Record) throws {
    switch record {
    case .begin(let header): self = .begin(header)
    case .commit(let number, let changes): self = .commit(number, changes: changes)
    case .schema(let id, let schema): self = .schema(id, schema)
    case .change(let c):
      self = .change(
        c.operation, c.flags, schema: c.schemaID, c.replaced, before: try c.before?.values(),
        after: try c.after?.values())
    case .refresh(let refresh): self = .refresh(refresh)
    case .refreshRow(let id, let image): self = .row(schema: id, try image.values())
    case .waitingRow(let row):
      self = .waiting(schema: row.schemaID, try row.image.values(), row.clock, row.origin, row.number)
    case .ddl(let ddl): self = .ddl(ddl)
    case .progress(let position, let time): self = .progress(position, time)
    case .sequence(let sequence): self = .sequence(sequence)
    case .marker(let kind, let text): self = .marker(kind, text)
    case .statement(let statement): self = .statement(try statement.executed())
    case .statementEnd(let end): self = .statementEnd(end)
    case .reserved(let kind, let payload): self = .reserved(kind, Array(payload))
    }
  }
}

extension TrailReader {
  /// All records up to the durable end.
  func rest() throws -> [Seen] {
    var all: [Seen] = []
    while let record = try next() { all.append(try Seen(record)) }
    return all
  }

  /// Records until an error, and the error.
  func untilError() -> ([Seen], CairnError?) {
    var all: [Seen] = []
    do {
      while let record = try next() { all.append(try Seen(record)) }
      return (all, nil)
    } catch { return (all, error as? CairnError) }
  }
}

func readAll(_ folder: String) throws -> [Seen] { try TrailReader.open(folder: folder, at: nil).rest() }

/// Everything up to the first error, also one of opening.
func readUntilError(_ folder: String) -> ([Seen], CairnError?) {
  do { return try TrailReader.open(folder: folder, at: nil).untilError() } catch { return ([], error as? CairnError) }
}
