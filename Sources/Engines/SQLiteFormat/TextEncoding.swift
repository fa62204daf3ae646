/// The encoding of all texts of a database, as its header stores it.
package enum TextEncoding: UInt32, Sendable {
  case utf8 = 1
  case utf16LittleEndian = 2
  case utf16BigEndian = 3
}
