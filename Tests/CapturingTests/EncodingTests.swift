import Changes
import Foundation
import PostgresKit
import TestServers
import Testing
@testable import Capturing

/// A role that may insert into one table cannot stop a capture by a text that has no place in UTF-8.
@Suite(.enabled(if: PostgresServer.isAvailable)) struct EncodingTests {
  private static let encodings = [
    "UTF8", "LATIN1", "LATIN2", "LATIN3", "LATIN4", "LATIN5", "LATIN6", "LATIN7", "LATIN8", "LATIN9", "LATIN10",
    "ISO_8859_5", "ISO_8859_6", "ISO_8859_7", "ISO_8859_8", "KOI8R", "KOI8U", "WIN866", "WIN874", "WIN1250", "WIN1251",
    "WIN1252", "WIN1253", "WIN1254", "WIN1255", "WIN1256", "WIN1257", "WIN1258", "EUC_CN", "EUC_JP", "EUC_JIS_2004",
    "EUC_KR", "EUC_TW",
  ]

  /// Counts the texts of the encoding, of one byte or of two, that the server holds and cannot convert.
  private static let countText = """
    CREATE FUNCTION pg_temp.gaps(encoding text, pairs boolean) RETURNS integer LANGUAGE plpgsql AS $$
    DECLARE n integer := 0; t text;
    BEGIN
      FOR b IN 128..254 LOOP FOR c IN CASE WHEN pairs THEN 161 ELSE 0 END..CASE WHEN pairs THEN 254 ELSE 0 END LOOP
        BEGIN t := convert_from(set_byte(CASE WHEN pairs THEN set_byte('\\x0000', 1, c) ELSE '\\x00' END, 0, b), encoding);
        EXCEPTION WHEN untranslatable_character THEN n := n + 1; RETURN n; WHEN OTHERS THEN END;
      END LOOP; END LOOP;
      RETURN n;
    END $$
    """

  @Test func `encodings with texts that cannot be converted are refused before a capture begins`() throws {
    let server = try PostgresServer.shared
    let counting = try PostgresConnection(server.url())
    try counting.execute(Self.countText)
    for encoding in Self.encodings {
      let name = "encoding_" + UUID().uuidString.prefix(8).lowercased()
      try server.psql("CREATE DATABASE \(name) TEMPLATE template0 ENCODING '\(encoding)' LOCALE 'C'")
      defer { try? server.dropDatabase(name) }
      let connection = try PostgresConnection(server.url(name))
      let gaps = try counting.first("SELECT pg_temp.gaps($1, $2)", [encoding, encoding.hasPrefix("EUC") ? "t" : "f"])
      var error: CairnError?
      do { try PostgresSource.check(connection, newSlots: 1) } catch let refusal as CairnError { error = refusal }
      #expect((error == nil) == (gaps == "0"), "\(encoding)")
      // A capture that runs already goes on, with a notice.
      try PostgresSource.check(connection, newSlots: 0)
      #expect(try (PostgresSource.encodingNotice(connection) == nil) == (gaps == "0"), "\(encoding)")
      guard let error else { continue }
      #expect(error.code == .serverSetting && error.message.contains(encoding) && error.hint.contains("UTF8"))
    }
  }
}
