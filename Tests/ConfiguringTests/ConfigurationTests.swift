import Configuring
import Testing

@Suite struct ConfigurationTests {
  @Test func `a capture writes the trail that is named after the node and itself`() {
    var conf = Configuration(node: .init(name: "till-7"))
    conf.databases = [.init(name: "shop", url: "sqlite:///srv/shop.db")]
    conf.captures = [.init(name: "pos", database: "shop")]
    #expect(conf.captures.map(conf.trail) == ["till-7.pos"])
    #expect(conf.captures.map { conf.database($0.database)?.url } == ["sqlite:///srv/shop.db"])
  }
}
