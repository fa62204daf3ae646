import Changes
import Operating
import PostgresKit
import Testing

/// Passwords in connection URLs never show, however they are written.
@Suite struct HiddenPasswordTests {
  /// Spellings of a connection with a password whose every part is `s3cret` or `h1dden`.
  static let secrets = [
    "postgresql://ann:s3cret@db.example/shop", "postgres://ann:s3cret@db.example:5433/shop?sslmode=require",
    "postgresql://ann:s3cret/h1dden@db.example/shop", "postgresql://ann:s3cret@h1dden@db.example/shop",
    "postgresql://ann:s3cret:h1dden@db.example/shop", "postgresql://ann:s3cret?h1dden@db.example/shop",
    "postgresql://ann:s3cret/h1dden?s3cret@h1dden@db.example/shop", "postgresql://ann:s3cret#h1dden@db.example/shop",
    "postgresql://ann:s3cret?x=h1dden@db.example/shop", "postgresql://ann:/s3cret@db.example/shop",
    "postgresql://ann:@s3cret@db.example/shop", "postgresql://ann%40home:s3cret@db.example/shop",
    "postgresql://ann@home:s3cret@db.example/shop", "postgresql://ann:s3cret%zz@db.example/shop",
    "postgresql://ann:s3cret", "postgresql://ann:s3cret/shop", "postgresql://ann:s3cret@", "postgresql://:s3cret@/shop",
    "postgresql://ann:s3cret@one:5432,two:5433/shop", "postgresql://ann:s3cret@[::1]:5432/shop",
    "postgresql:///shop?user=ann&password=s3cret", "postgresql:///shop?password=s3cret&sslmode=require",
    "postgresql:///shop?password=s3cret&h1dden&sslmode=require", "postgresql:///shop?pass%77ord=s3cret",
    "postgresql:///shop?sslpassword=s3cret@h1dden", "postgresql:///shop?password=s3cret/h1dden?s3cret=h1dden",
    "postgresql://ann@db.example/shop?host=x&password=s3cret", "POSTGRESQL://ann:s3cret@db.example/shop",
    "postgres:ann:s3cret@db.example/shop", "ann:s3cret@db.example/shop", "ann:s3cret@h1dden@db.example/shop",
    "host=db.example user=ann password=s3cret dbname=shop", "host=db.example password='s3cret h1dden' dbname=shop",
    "password = 's3cret\\' h1dden' host=db.example", "host=db.example password='s3cret h1dden",
    "password=s3cret\\ h1dden host=db.example", "PASSWORD=s3cret host=db.example", "PGPASSWORD=s3cret",
    "mysql://ann:s3cret@db.example/shop",
    "option --from: 'postgresql://ann:s3cret@h1dden/x@db.example/shop' is no database",
  ]

  @Test(arguments: secrets) func `no spelling of a connection shows any part of its password`(text: String) {
    func check(_ shown: String, _ what: String) {
      #expect(!shown.contains("s3cret") && !shown.contains("h1dden"), "\(what): \(shown)")
    }
    check(URLPassword.hidden(in: text), "hidden")
    do {
      let url = try DatabaseURL(text)
      check(url.shown, "shown")
      check(url.place, "place")
      check("\(url.trustNotice ?? "")", "trust")
    } catch { check("\(error)", "DatabaseURL") }
    check(PostgresConnection.problem(with: text) ?? "", "problem")
    guard text.hasPrefix("postgres"), text.contains("://") else { return }
    check(PostgresConnection.place(of: text), "place")
    #expect(URLPassword.isIn(text))
  }

  @Test(
    arguments: [
      "postgresql://ann@db.example:5433/shop", "postgresql:///shop?host=/run/pg&port=5433",
      "postgresql://db.example/shop",
      "postgresql://ann@one:5432,two:5433/shop?sslmode=verify-full", "postgresql://[::1]:5432/shop", "sqlite:shop.db",
      "sqlite:///srv/a@b/x:y.db", "there is no option '--at': see 'cairn copy --help'",
    ]) func `text without a password is shown as it is`(text: String)
  {
    #expect(URLPassword.hidden(in: text) == text && !URLPassword.isIn(text))
    if text.hasPrefix("postgres") { #expect(PostgresConnection.problem(with: text) == nil) }
  }
}
