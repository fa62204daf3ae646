import Changes
import Endpoints
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

  /// Options of URLs that are none of libpq's, or none of an SQLite file: each may be a misspelt password.
  static let misspelt = [
    "postgresql:///shop?passwd=s3cret", "postgresql:///shop?pass word=s3cret", "postgresql:///shop?passwords3cret",
    "postgresql://ann@db.example/shop?sslmode=require&pasword=s3cret&h1dden", "postgresql:///shop?pwd=s3cret&host=x",
    "postgresql:///shop?pass=s3cret?h1dden", "postgresql:///shop?PASS%57ORT=s3cret",
    "mysql://db.example/x?passwd=s3cret",
    "postgresql:///shop?scram_client_key=s3cret", "postgresql:///shop?pass\"word=s3cret", "sqlite:x?password=s3cret",
    "sqlite:///srv/x.db?key=s3cret&mode=h1dden", "postgresql:///shop?pass word s3cret",
    "option --from: 'postgresql:///shop?pass wort=s3cret' is no database",
    "'postgresql:///shop?pass'word=s3cret' is no database",
  ]

  @Test(arguments: misspelt) func `no value of an unknown option is shown`(text: String) {
    func check(_ shown: String, _ what: String) {
      #expect(!shown.contains("s3cret") && !shown.contains("h1dden"), "\(what): \(shown)")
    }
    check(URLPassword.hidden(in: text), "hidden")
    do {
      let url = try DatabaseURL(text)
      check(url.shown, "shown")
      check(url.place, "place")
    } catch { check("\(error)", "DatabaseURL") }
    check(PostgresConnection.problem(with: text) ?? "", "problem")
  }

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
      "sqlite:///srv/a@b/x:y.db", "sqlite:///srv/what?.db", "postgresql:///shop?sslmode=require&options=-c%20a%3Db",
      "'postgresql:///shop?host=/run/pg' is not a database", "cannot connect to postgresql:///shop?port=1: refused",
      "there is no option '--at': see 'cairn copy --help'",
    ]) func `text without a password is shown as it is`(text: String)
  {
    #expect(URLPassword.hidden(in: text) == text && !URLPassword.isIn(text))
    if text.hasPrefix("postgres") { #expect(PostgresConnection.problem(with: text) == nil) }
  }
}
