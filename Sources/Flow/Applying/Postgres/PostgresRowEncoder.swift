import Changes
import Mapping
import PostgresKit

/// Converts rows of the trail into texts for PostgreSQL.
final class PostgresRowEncoder {
  /// The number of values that became NULL, as they do not fit, since the last commit.
  var misfitsNulled: UInt64 = 0
  private let misfits: MisfitPolicies
  private let errors: PostgresRowErrors

  init(_ misfits: MisfitPolicies, _ errors: PostgresRowErrors) { (self.misfits, self.errors) = (misfits, errors) }

  /// Converts a row image into texts for PostgreSQL, and stores them in `row`. The misfit policy decides whether a
  /// value that does not fit becomes NULL, widens the column, or is an error.
  ///
  /// - Parameter isNew: Whether the image is the row after the change; false: before the change.
  func encode(_ image: ImageView, into row: inout RowText, _ table: PostgresApplyTable, isNew: Bool) throws {
    row.removeAll()
    var reader = ByteReader(image.bytes)
    var place = 0
    for index in table.columns.indices {
      while place < table.positions[index] {
        guard !reader.isAtEnd else { throw errors.wrongCount(table) }
        _ = try reader.readColumn()
        place += 1
      }
      guard !reader.isAtEnd else { throw errors.wrongCount(table) }
      let value = try reader.readColumn()
      place += 1
      switch value {
      case .null: row.appendNull()
      case .unchanged: row.appendUnchanged()
      default:
        do throws(Misfit) {
          try row.append { (text: inout ByteWriter) throws(Misfit) in
            try table.converters[index].append(value, to: &text)
          }
        } catch {
          try substitute(value, error, index, table, isNew: isNew, row: &row)
        }
      }
    }
    while place < table.given.columns.count, !reader.isAtEnd {
      _ = try reader.readColumn()
      place += 1
    }
    guard place == table.given.columns.count else { throw errors.wrongCount(table) }
    guard reader.isAtEnd else { throw errors.wrongCount(table) }
  }

  private func substitute(
    _ value: ColumnView, _ misfit: Misfit, _ index: Int, _ table: PostgresApplyTable, isNew: Bool, row: inout RowText
  ) throws {
    let column = table.source.columns[index].name
    switch misfits.policy(table: table.source.name, column: column) {
    case .null where !table.key.contains(index) && !table.columns[index].isNotNull:
      row.appendNull()
      if isNew { misfitsNulled += 1 }
    case .widen where table.canWiden(index):
      throw Widening(table: table.stateKey, index: index)
    default:
      // A value that the target cannot hold is not compared: the other columns identify the row.
      guard isNew || table.key.contains(index) else { return row.appendUnchanged() }
      throw errors.misfitError(table, index, value.value?.shown ?? "?", misfit.reason, row: row)
    }
  }
}

extension PostgresApplyTable {
  /// Returns whether a column's type may be changed to text. False if the column is text already or identifies rows, or
  /// if Cairn did not create the table.
  func canWiden(_ index: Int) -> Bool {
    state.isCreated && columns[index].type.kind != .text && !isWholeRow && !key.contains(index)
  }
}

/// The error for a column whose type must become text. Apply catches it, alters the column, and applies the record
/// again.
struct Widening: Error {
  let table: String
  let index: Int
}
