import Changes
import PostgresKit
import Testing

/// Lists of tables of a PostgreSQL database.
@Suite struct TableListTests {
  @Test func `a mark before a combining character is one`() {
    #expect(TablePatterns(["s.\u{301}t"]).includes(namespace: "s", name: "\u{301}t"))
    #expect(!TablePatterns(["*", "!s.\u{301}t"]).includes(namespace: "s", name: "\u{301}t"))
    #expect(TablePatterns(["*", "!\u{301}b"]).includes(namespace: "public", name: "b"))
    #expect(!TablePatterns(["*", "!\u{301}b"]).includes(namespace: "public", name: "\u{301}b"))
  }
}
