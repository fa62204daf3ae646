import CCairn
import CairnCapture
import Glibc
import Synchronization

/// The object for which a C program holds a `cairn_database *`.
final class DatabaseHandle: @unchecked Sendable {
  let database: CapturedDatabase
  /// The open transaction. Only the thread that runs the transaction may access it.
  var transaction: CapturedTransaction?
  init(_ database: CapturedDatabase) { self.database = database }
}

/// The object for which a C program holds a `cairn_rows *`: the rows of a query. Only one thread at a time may use it.
final class RowsHandle: @unchecked Sendable {
  private let rows: [Row]
  private let names: [UnsafeMutablePointer<CChar>]
  /// The bytes of all values of the current row, concatenated.
  private var bytes: UnsafeMutableRawPointer?
  private var values: [cairn_value] = []
  private var next = 0

  init(_ rows: [Row]) {
    self.rows = rows
    names = (rows.first?.columns ?? []).compactMap { strdup($0) }
  }

  deinit {
    for name in names { free(name) }
    free(bytes)
  }

  var columnCount: Int { names.count }

  func name(_ index: Int) -> UnsafePointer<CChar>? { names.indices.contains(index) ? UnsafePointer(names[index]) : nil }

  func value(_ index: Int) -> cairn_value { values.indices.contains(index) ? values[index] : cairn_null() }

  func advance() -> Bool {
    free(bytes)
    (bytes, values) = (nil, [])
    guard next < rows.count else { return false }
    fill(rows[next].values)
    next += 1
    return true
  }

  private func fill(_ row: [SQLValue]) {
    // One extra byte for each value: texts end with NUL, and an empty value still gets a valid pointer.
    let size = row.reduce(0) { $0 + $1.size + 1 }
    let start = UnsafeMutableRawPointer.allocate(byteCount: max(size, 1), alignment: 1)
    start.initializeMemory(as: UInt8.self, repeating: 0, count: max(size, 1))
    bytes = start
    var offset = 0
    values = row.map { value in
      switch value {
      case .null: return cairn_null()
      case .integer(let number): return cairn_integer(number)
      case .real(let number): return cairn_real(number)
      case .text(var text):
        return text.withUTF8 { Self.place(UnsafeRawBufferPointer($0), CAIRN_TEXT, start, &offset) }
      case .blob(let blob):
        return blob.withUnsafeBytes { Self.place($0, CAIRN_BLOB, start, &offset) }
      }
    }
  }

  private static func place(
    _ content: UnsafeRawBufferPointer, _ type: cairn_type, _ start: UnsafeMutableRawPointer, _ offset: inout Int
  ) -> cairn_value {
    let place = start + offset
    if let first = content.baseAddress { place.copyMemory(from: first, byteCount: content.count) }
    offset += content.count + 1
    return cairn_value(type: type, integer: 0, real: 0, bytes: place, size: content.count)
  }
}

extension SQLValue {
  fileprivate var size: Int {
    switch self {
    case .text(let text): text.utf8.count
    case .blob(let bytes): bytes.count
    default: 0
    }
  }

  /// Converts a value of the C program; nil if its type is unknown, its size invalid, or its text not UTF-8.
  init?(_ value: cairn_value) {
    switch value.type {
    case CAIRN_NULL: self = .null
    case CAIRN_INTEGER: self = .integer(value.integer)
    case CAIRN_REAL: self = .real(value.real)
    case CAIRN_TEXT:
      guard let content = Self.content(value), let text = String(validating: content, as: UTF8.self) else { return nil }
      self = .text(text)
    case CAIRN_BLOB:
      guard let content = Self.content(value) else { return nil }
      self = .blob(Array(content))
    default: return nil
    }
  }

  private static let sizes = 0...Int(Int32.max)

  /// Returns the bytes of a text or blob; nil if the size is invalid.
  private static func content(_ value: cairn_value) -> UnsafeRawBufferPointer? {
    guard sizes.contains(value.size), value.bytes != nil || value.size == 0 else { return nil }
    return UnsafeRawBufferPointer(start: value.bytes, count: value.size)
  }
}

/// The handles that C code gets instead of addresses: numbers that are never used twice. Calls with closed handles are
/// detected.
enum Handle {
  private struct Open {
    /// The distance between two handles, which look like aligned addresses.
    static let step: UInt = 16
    var last: UInt = 0
    var objects: [UInt: any AnyObject & Sendable] = [:]
  }
  private static let open = Mutex(Open())

  static func make(_ object: any AnyObject & Sendable) -> OpaquePointer? {
    let number = open.withLock { open in
      open.last += Open.step
      open.objects[open.last] = object
      return open.last
    }
    return OpaquePointer(bitPattern: number)
  }

  /// Returns the object of an open handle; nil if there is none, or if it has another type.
  static func object<T: AnyObject & Sendable>(_ handle: OpaquePointer?, as type: T.Type = T.self) -> T? {
    open.withLock { $0.objects[UInt(bitPattern: handle)] } as? T
  }

  static func close<T: AnyObject & Sendable>(_ handle: OpaquePointer?, _ type: T.Type) {
    // Release the object outside of the lock, once no other thread uses it.
    _ = open.withLock { open in
      open.objects[UInt(bitPattern: handle)] is T ? open.objects.removeValue(forKey: UInt(bitPattern: handle)) : nil
    }
  }
}
