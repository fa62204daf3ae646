import Changes

/// The description of a table for decoding its rows from the replication stream.
final class Captured {
  let relation: UInt32
  let epoch: UInt64
  let schema: TableSchema
  /// For each column, whether an old row with only the key has a value for it.
  let isKey: [Bool]
  let isKeyed: Bool
  /// Whether changes of the table go into the trail. False if the table is not captured, or if it waits for a refresh
  /// that has not begun.
  let isWanted: Bool
  /// For each column of a partitioned table, whether every old row in the stream must have a value for it. True for
  /// columns that are NOT NULL and in the replica identity. Nil for a table without partitions.
  let givenAlways: [Bool]?
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

  convenience init(ignored relation: UInt32) {
    self.init(
      relation: relation, epoch: 0, schema: TableSchema(epoch: 0, engine: .postgres, name: "", columns: []),
      isKey: [], isKeyed: false, isWanted: false, isFull: false)
  }
}
