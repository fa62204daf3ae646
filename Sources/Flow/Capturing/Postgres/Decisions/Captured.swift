import Changes

/// The description of a table by which capture reads the table's rows from the replication stream.
final class Captured {
  let relation: UInt32
  let epoch: UInt64
  let schema: TableSchema
  /// For each column, whether it has a value in an old row that contains only the key.
  let isKey: [Bool]
  let isKeyed: Bool
  /// Whether changes of the table go into the trail. False if the table is not captured. Also false if its rows are
  /// still to be copied, because the copy will show the changes.
  let isWanted: Bool
  /// For each column of a partitioned table, whether a complete old row always has a value in it. PostgreSQL sends NULL
  /// there if a partition logged too little of the row. Nil for a table without partitions.
  let givenAlways: [Bool]?
  /// Whether each UPDATE in the stream has the whole old row (REPLICA IDENTITY FULL).
  let isFull: Bool

  init(
    relation: UInt32, epoch: UInt64, schema: TableSchema, isKey: [Bool], isKeyed: Bool, isWanted: Bool, isFull: Bool
  ) {
    (self.relation, self.epoch, self.schema, self.isFull) = (relation, epoch, schema, isFull)
    (self.isKey, self.isKeyed, self.isWanted) = (isKey, isKeyed, isWanted)
    givenAlways =
      schema.flags.contains(.partitioned)
      ? schema.columns.indices.map { schema.columns[$0].isNotNull && (isFull || isKey[$0]) } : nil
  }

  /// Creates the description of a table that is not captured.
  convenience init(ignored relation: UInt32) {
    self.init(
      relation: relation, epoch: 0, schema: TableSchema(epoch: 0, engine: .postgres, name: "", columns: []),
      isKey: [], isKeyed: false, isWanted: false, isFull: false)
  }
}
