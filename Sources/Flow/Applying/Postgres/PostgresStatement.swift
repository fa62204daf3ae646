import PostgresKit

final class PostgresStatement {
  enum Parameter: Hashable {
    /// The column's value in the before image, or in the after image if the before image lacks the column.
    case old(Int)
    /// The column's value in the after image, or in the before image if the after image lacks the column.
    case new(Int)
  }

  let name: String
  let sql: String
  let parameters: [Parameter]
  var isPrepared = false

  init(name: String, sql: String, parameters: [Parameter] = []) {
    (self.name, self.sql, self.parameters) = (name, sql, parameters)
  }

  /// Fills `values` with the parameters for one execution. They are valid until one of the rows is changed.
  func fill(_ values: inout [PostgresParameter], _ before: borrowing RowText, _ after: borrowing RowText) {
    values.removeAll(keepingCapacity: true)
    for parameter in parameters {
      switch parameter {
      case .old(let column): values.append(before.gives(column) ? before.parameter(column) : after.parameter(column))
      case .new(let column): values.append(after.gives(column) ? after.parameter(column) : before.parameter(column))
      }
    }
  }

  func strings(_ before: borrowing RowText, _ after: borrowing RowText) -> [String?] {
    parameters.map { parameter in
      switch parameter {
      case .old(let column): before.gives(column) ? before.string(column) : after.string(column)
      case .new(let column): after.gives(column) ? after.string(column) : before.string(column)
      }
    }
  }
}
