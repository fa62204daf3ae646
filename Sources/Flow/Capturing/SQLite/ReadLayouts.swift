import Changes

/// The layouts of a source, checked one after the other as they are read. A program can have written them.
///
///     var layouts = ReadLayouts()
///     try layouts.add(row)   // throws if Cairn cannot have written the row
struct ReadLayouts {
  /// The highest number of layouts of a file. Each schema change of a table adds one.
  static let countMax = 100_000

  private(set) var all: [CaptureInstance] = []
  private var ids: Set<Int64> = []
  private var followed: Set<Int64> = []
  /// The memory that further layouts may take, in bytes.
  private var room: Int
  private let countMax: Int

  init(room: Int = TableSchema.memoryMax, countMax: Int = Self.countMax) {
    (self.room, self.countMax) = (room, countMax)
  }

  /// Adds a row of `cairn_layout`, in the order of the ids.
  ///
  /// - Throws: `database-damaged` if Cairn cannot have written the row, and `database-unsafe` if there are too many.
  mutating func add(_ row: [Value]) throws {
    guard all.count < countMax else { throw CaptureInstance.tooMany }
    let layout = try CaptureInstance(row: row, room: room)
    guard all.last.map({ $0.id < layout.id }) ?? true, canFollow(layout) else { throw CaptureInstance.foreign }
    // Otherwise one large layout would be compared with each of very many small ones.
    if let previous = layout.previous, !followed.insert(previous).inserted { throw CaptureInstance.foreign }
    room -= layout.schema.memoryBytes
    ids.insert(layout.id)
    all.append(layout)
  }

  /// Returns whether the schema change of a layout names the tables that readers of a trail expect.
  private func canFollow(_ layout: CaptureInstance) -> Bool {
    switch layout.action {
    case nil: true
    case .create: layout.previous == nil
    case .rename, .reshape: layout.previous.map(ids.contains) ?? false
    case .drop: false
    }
  }
}
