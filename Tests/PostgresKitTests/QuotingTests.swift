import Changes
import PostgresKit
import TestServers
import Testing

/// PostgreSQL reads back what is quoted, whatever stands beside the quotes. (C1 of the threat model.)
@Suite(.enabled(if: PostgresServer.isAvailable)) struct QuotingTests {
  @Test(arguments: ["on", "off"]) func `the server reads literals and names back`(conforming: String) throws {
    let database = try PostgresServer.shared.createDatabase("quoting_\(conforming)")
    let connection = try PostgresConnection(database)
    try connection.execute("SET standard_conforming_strings = \(conforming)")
    try connection.execute("SET escape_string_warning = off")
    let seed = UInt64.random(in: .min ... .max)
    var random = Seeded(seed)
    for scalar in HostileText.scalars {
      var texts: [String] = []
      for quote in ["'", "\"", "\\"] as [Unicode.Scalar] {
        texts += [HostileText.string([scalar, quote, random.hostileScalar()])]
        texts += [HostileText.string([random.hostileScalar(), quote, scalar, quote])]
      }
      texts.append(random.hostileText(upTo: 10))
      // One statement that the server must take as one row of so many columns.
      let plain = texts.map { "\($0.postgresLiteral)::text" }
      let lines = texts.map { "\($0.postgresLineLiteral)::text" }
      let rows = try connection.query("SELECT \((plain + lines).joined(separator: ", "))")
      #expect(rows.count == 1)
      for (read, text) in zip(rows[0], texts + texts) {
        #expect(read.map { Array($0.utf8) } == Array(text.utf8), "seed \(seed)")
      }
      for text in texts {
        let tagged = text + "$cairn$" + text + "$cairn1$;$cairn"
        let read = try connection.first("SELECT \(tagged.dollarQuoted)::text")
        #expect(read.map { Array($0.utf8) } == Array(tagged.utf8), "seed \(seed)")
      }
      for text in texts where !text.isEmpty {
        let name = try connection.first(
          "SELECT jsonb_object_keys(to_jsonb(t)) FROM (SELECT 1 AS \(text.quotedName)) AS t")
        #expect(name.map { Array($0.utf8) } == Array(text.utf8), "seed \(seed)")
      }
    }
  }
}
