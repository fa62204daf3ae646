/// The state of a sequence at the source. `last` is the last value that the sequence has given out.
///
///     SequenceState(namespace: "public", name: "orders_id_seq", last: 41, increment: 1)
package struct SequenceState: Equatable, Sendable {
  @ByBytes package var namespace: String
  @ByBytes package var name: String
  package var last: Int64
  package var increment: Int64
  package init(namespace: String, name: String, last: Int64, increment: Int64) {
    self.namespace = namespace
    self.name = name
    self.last = last
    self.increment = increment
  }

  /// The name for messages: without the schema if that is `public`.
  package var shownName: String {
    namespace.hasSameBytes(as: "public") ? name : "\(namespace).\(name)"
  }
}

extension ByteWriter {
  package mutating func append(_ sequence: SequenceState) {
    appendString(sequence.namespace)
    appendString(sequence.name)
    appendZigzag(sequence.last)
    appendZigzag(sequence.increment)
  }
}
