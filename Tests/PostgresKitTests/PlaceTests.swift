import PostgresKit
import Testing

struct PlaceTests {
  @Test(
    "what is kept of a database leads to it again",
    arguments: [
      "postgresql://ann@/shop?host=/var/run/other%20folder&port=5433", "postgresql://db.example/shop",
      "postgresql://ann@db.example:5433/shop", "postgresql:///shop", "postgresql://ann@:5433/shop",
      "postgresql:///shop?service=far", "postgresql://ann%20b@db.example/my%20shop", "postgresql:///shop?host=/tmp",
    ])
  func leadsBack(uri: String) {
    let place = PostgresConnection.place(of: uri)
    let again = PostgresPlace.uri(of: place)
    #expect(PostgresConnection.problem(with: again) == nil, "\(again)")
    #expect(PostgresConnection.place(of: again) == place, "\(again)")
  }

  @Test("the folder of a socket is given as an option")
  func socketFolder() {
    let place = PostgresConnection.place(of: "postgresql://ann@/shop?host=/run/pg&port=5433&password=secret")
    #expect(PostgresPlace.uri(of: place) == "postgresql://ann@/shop?host=%2frun%2fpg&port=5433")
  }

  @Test(
    "a server that does not prove which one it is, is told of",
    arguments: [
      ("postgresql://db.example/shop", true), ("postgresql://db.example/shop?sslmode=require", true),
      ("postgresql://db.example/shop?sslmode=verify-ca", true),
      ("postgresql://db.example/shop?sslmode=verify-full", false),
      ("postgresql:///shop", false), ("postgresql:///shop?host=/run/pg", false), ("postgresql://localhost/shop", false),
      ("postgresql://127.0.0.1:5433/shop", false), ("postgresql://[::1]/shop", false),
      ("postgresql://127.0.0.1.example/shop", true), ("postgresql://127.0.0.1,db.example/shop", true),
      ("postgresql:///shop?hostaddr=192.0.2.7", true),
    ])
  func trust(uri: String, isTold: Bool) throws {
    let notice = PostgresConnection.trustNotice(uri)
    #expect((notice != nil) == isTold)
    #expect(notice?.contains("sslmode=verify-full") != false)
  }
}
