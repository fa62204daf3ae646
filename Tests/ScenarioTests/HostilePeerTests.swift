import Changes
import Foundation
import HostilePeer
import TestServers
import Testing

extension DaemonScenarios {
  /// An invited peer against the memory, the disk and the life of the node (threat model, findings H1, H2, H3 and M6).
  @Suite struct HostilePeerTests {
    private static let apply = "[apply.x]\ntrail = \"evil.x\"\ndatabase = \"erp\"\ntables = [\"t\"]\n"

    /// A node to which `evil` pushes with its certificate, unless `isTLS` is false.
    private static func bench(
      _ more: String = "", grants: String = "push = [\"evil.*\"]", peer: String = "", isTLS: Bool = true
    ) throws -> HostileBench {
      let bench = try HostileBench(more, grants: grants, peer: peer, isTLS: isTLS)
      if isTLS { _ = try bench.joinOverTLS() }
      return bench
    }

    // MARK: H1: extreme integers

    @Test(arguments: [UInt64.max, 1 << 63, 1 << 48])
    func `a segment with an extreme number stops no daemon, now or after a restart`(number: UInt64) throws {
      let bench = try Self.bench()
      var segment = HostileSegment("evil.x", number: number, first: 5)
      segment.seal()
      let status = bench.evil.push(segment)
      #expect(status == 404 || status == 422, "\(String(describing: status))")
      #expect(bench.isAlive, "\(bench.net.logs)")
      #expect(try bench.restart())
      bench.evil.push(segment)
      _ = bench.evil.get("/cairn/1/trails/evil.x")
      #expect(bench.isAlive, "\(bench.net.logs)")
      bench.net.endAll()
    }

    @Test func `the last segment that a trail can have stops no daemon`() throws {
      let bench = try Self.bench()
      var segment = HostileSegment("evil.x", number: 1 << 48 - 1, first: 5)
      segment.seal()
      #expect(bench.evil.push(segment) == 200, "\(bench.net.logs)")
      #expect(bench.evil.get("/cairn/1/trails/evil.x") == 200)
      #expect(try bench.restart())
      #expect(bench.evil.get("/cairn/1/trails/evil.x") == 200)
      #expect(bench.isAlive)
      bench.net.endAll()
    }

    @Test(arguments: [Int64.min, .max]) func `a segment of an extreme time stops no daemon`(created: Int64) throws {
      let metrics = try NetworkBench.freePort()
      let bench = try Self.bench("[metrics]\nlisten = \"127.0.0.1:\(metrics)\"")
      var segment = HostileSegment("evil.x", created: created)
      var records = HostileRecords()
      records.begin(1)
      records.marker("x")
      records.commit(1, changes: 0)
      segment.block(records.bytes)
      #expect(bench.evil.push(segment) == 422)
      func look() throws {
        sleep(12)
        #expect(try bench.net.cairn(bench.hq, "status").status < 64)
        for path in ["/status.json", "/metrics"] {
          let told = try bench.net.bench.run("/usr/bin/curl", ["-sf", "http://127.0.0.1:\(metrics)\(path)"])
          #expect(told.status == 0, "\(path)")
        }
        #expect(bench.isAlive, "\(bench.net.logs)")
      }
      try look()
      #expect(try bench.restart())
      try look()
      bench.net.endAll()
    }

    @Test(arguments: [Int64.min, .max])
    func `a transaction of an extreme time stops no daemon that applies it`(time: Int64) throws {
      let bench = try Self.bench(Self.apply)
      var segment = HostileSegment("evil.x")
      var records = HostileRecords()
      records.begin(1, time: time)
      records.marker("x")
      records.commit(1, changes: 0)
      segment.block(records.bytes)
      #expect(bench.evil.push(segment) == 422)
      sleep(3)
      #expect(bench.isAlive, "\(bench.net.logs)")
      #expect(try bench.restart())
      sleep(3)
      #expect(bench.isAlive, "\(bench.net.logs)")
      #expect(bench.isCanaryUntouched)
      bench.net.endAll()
    }

    @Test(arguments: [1 << 62, 1 << 63, UInt64.max])
    func `a transaction of an extreme number stops no daemon that applies it`(number: UInt64) throws {
      let bench = try Self.bench(Self.apply)
      var segment = HostileSegment("evil.x", first: number)
      var records = HostileRecords()
      records.begin(number, clock: 1)
      records.marker("x")
      records.commit(number, changes: 0)
      segment.block(records.bytes)
      let status = bench.evil.push(segment)
      #expect([404, 422].contains(status), "\(String(describing: status))")
      #expect(bench.isAlive, "\(bench.net.logs)")
      #expect(try bench.restart())
      bench.evil.push(segment)
      #expect(bench.isAlive && bench.isCanaryUntouched, "\(bench.net.logs)")
      bench.net.endAll()
    }

    // MARK: H2: memory

    @Test(arguments: [false, true]) func `blocks that unpack to a gibibyte cost no memory`(isTLS: Bool) throws {
      let bench = try Self.bench(isTLS: isTLS)
      let before = bench.residentMiB
      #expect(before > 0)
      for n in 0..<4 {
        var segment = HostileSegment("evil.n\(n)")
        segment.bomb(contentLength: 1 << 30)
        #expect(segment.bytes.count < 40 << 10)
        #expect(bench.evil.push(segment) == 400)
      }
      print("four bombs of 1 GiB: \(before) MiB before, \(bench.residentMiB) MiB after")
      #expect(bench.residentMiB < before + 32, "\(bench.residentMiB) MiB")
      #expect(bench.isAlive)
      bench.net.endAll()
    }

    @Test func `blocks of the largest size that is allowed stay within the budget, and their memory is given back`()
      throws
    {
      let bench = try Self.bench()
      let before = bench.residentMiB
      #expect(before > 0)
      var peak = 0
      let evil = bench.evil
      let threads = (0..<16).map { n in
        Thread {
          var segment = HostileSegment("evil.n\(n)")
          segment.bomb(contentLength: 64 << 20)
          evil.push(segment)
        }
      }
      for thread in threads { thread.start() }
      while threads.contains(where: { !$0.isFinished }) {
        peak = max(peak, bench.residentMiB)
        usleep(5000)
      }
      usleep(500_000)
      print("sixteen bombs of 64 MiB: \(before) MiB before, \(peak) MiB at most, \(bench.residentMiB) MiB after")
      #expect(peak < before + 256 + 64)
      #expect(bench.residentMiB < before + 64)
      #expect(bench.isAlive)
      bench.net.endAll()
    }

    @Test func `sixteen applies of blocks of the largest size stay within the budget`() throws {
      let bench = try Self.bench()
      var applies = ""
      for n in 0..<16 {
        var segment = HostileSegment("evil.n\(n)")
        segment.largeTransaction(zeros: 63 << 20)
        #expect(bench.evil.push(segment) == 200, "\(bench.net.logs)")
        let target = bench.net.bench.path("target\(n).db")
        applies += "[database.t\(n)]\nurl = \"sqlite://\(target)\"\n"
        applies += "[apply.n\(n)]\ntrail = \"evil.n\(n)\"\ndatabase = \"t\(n)\"\ntables = [\"t\"]\n"
      }
      let before = bench.residentMiB
      try bench.reload(adding: applies)
      func applied() -> Int {
        let workers = bench.net.status(bench.hq)["workers"] as? [[String: Any]] ?? []
        return workers.count { ($0["transactions"] as? Int ?? 0) == 1 }
      }
      var (peak, looks) = (0, 0)
      while looks < 6000 {
        peak = max(peak, bench.residentMiB)
        looks += 1
        if looks % 100 == 0, applied() == 16 { break }
        usleep(5000)
      }
      print("sixteen applies of 64 MiB: \(before) MiB before, \(peak) MiB at most, \(bench.residentMiB) MiB after")
      #expect(applied() == 16, "\(bench.net.logs)")
      // Besides the blocks, each worker has its thread and its connection.
      #expect(peak < before + 256 + 64 + 64)
      #expect(bench.isAlive)
      bench.net.endAll()
    }

    // MARK: H3: disk

    private static let limits = "[limits]\ndisk = \"128 MiB\"\n"

    /// A block of a transaction that has no end.
    private static func open(_ megabytes: Int) -> [UInt8] {
      var records = HostileRecords()
      for _ in 0..<megabytes * 16 { records.add(RecordKind.marker) { $0.append(Array(repeating: 1, count: 65_500)) } }
      return records.bytes
    }

    @Test(arguments: [false, true])
    func `one body without an end does not pass the limit of the disk`(isTLS: Bool) throws {
      let bench = try Self.bench(Self.limits, isTLS: isTLS)
      var segment = HostileSegment("evil.x")
      var sent = 0
      let status = bench.evil.pushChunks(segment) {
        let start = sent == 0 ? 0 : segment.bytes.count
        var records = HostileRecords()
        if sent == 0 { records.begin(1) }
        records.add(RecordKind.marker) { $0.append(Array(repeating: 1, count: 1 << 20)) }
        segment.block(records.bytes, HostileSegment.Flags.none)
        sent += segment.bytes.count - start
        return sent < 200 << 20 ? Array(segment.bytes[start...]) : nil
      }
      print("one body: \(sent >> 20) MiB sent, answer \(status ?? 0), \(bench.diskMiB) MiB on the disk")
      #expect(status != 200)
      #expect(bench.diskMiB <= 10)
      #expect(bench.isAlive)
      bench.net.endAll()
    }

    @Test func `transactions without an end do not pass the limit of the disk, and are counted`() throws {
      let bench = try Self.bench(Self.limits)
      var segment = HostileSegment("evil.x")
      var records = HostileRecords()
      records.begin(1)
      segment.block(records.bytes, HostileSegment.Flags.none)
      var refused = 0
      #expect(bench.evil.push(segment) == 200)
      let content = Self.open(7)
      for _ in 0..<14 where refused == 0 {
        let (offset, chain) = (segment.bytes.count, segment.chain)
        segment.block(content, HostileSegment.Flags.none)
        let status = bench.evil.push(Array(segment.bytes[offset...]), segment, offset: offset, chain: chain)
        if status == 507 || status == nil { refused += 1 } else { #expect(status == 200) }
        usleep(300_000)
      }
      #expect(refused > 0)
      #expect(bench.net.wait(seconds: 15) { bench.toldMiB >= 48 }, "told \(bench.toldMiB) MiB")
      print("transactions without an end: \(bench.diskMiB) MiB on the disk, \(bench.toldMiB) MiB told")
      #expect(bench.diskMiB <= 72)
      #expect(bench.isAlive)
      bench.net.endAll()
    }

    @Test func `trails of one header each take next to nothing, and not more than the peer may have`() throws {
      let bench = try Self.bench(Self.limits, peer: "trails = 100")
      var refused = 0
      for n in 0..<140 {
        let status = bench.evil.push(HostileSegment("evil.n\(n)"))
        if status == 507 { refused += 1 } else { #expect(status == 200) }
      }
      print("trails of one header: \(140 - refused) taken, \(bench.diskMiB) MiB on the disk")
      #expect(refused == 40)
      #expect(bench.diskMiB <= 4)
      #expect(bench.isAlive)
      bench.net.endAll()
    }

    @Test func `a peer has its own room on the disk`() throws {
      let bench = try Self.bench(peer: "disk = \"64 MiB\"")
      var segment = HostileSegment("evil.x")
      var records = HostileRecords()
      records.begin(1)
      segment.block(records.bytes, HostileSegment.Flags.none)
      #expect(bench.evil.push(segment) == 200)
      let content = Self.open(7)
      var status: Int? = 200
      for _ in 0..<14 where status == 200 {
        let (offset, chain) = (segment.bytes.count, segment.chain)
        segment.block(content, HostileSegment.Flags.none)
        status = bench.evil.push(Array(segment.bytes[offset...]), segment, offset: offset, chain: chain)
      }
      #expect(status == 507 || status == nil)
      #expect(bench.diskMiB <= 72)
      bench.net.endAll()
    }

    // MARK: M6: requests for copies

    @Test func `a peer that asks for copies again and again gets few of them`() throws {
      let bench = try Self.bench("[capture.erp]\ndatabase = \"erp\"\n", grants: "pull = [\"hq.*\"]")
      _ = try bench.net.bench.sqlite(
        "erp.db", "CREATE TABLE big(id INTEGER PRIMARY KEY, b BLOB); INSERT INTO big VALUES (1, randomblob(2000000))")
      #expect(bench.net.wait { bench.evil.get("/cairn/1/trails/hq.erp") == 200 }, "\(bench.net.logs)")
      sleep(2)
      let before = bench.diskMiB
      for n in 0..<90 {
        let body = "{\"requests\": [{\"id\": \"a\(n)\", \"tables\": []}]}"
        let status = bench.evil.post("/cairn/1/trails/hq.erp/requests", body)
        #expect(status == 200 || status == 503)
        usleep(250_000)
      }
      // A copy is 2 MiB that no codec makes smaller.
      let added = bench.diskMiB - before
      print("ninety requests for copies: \(added) MiB were added to the trail")
      #expect((1...14).contains(added), "\(bench.net.logs)")
      #expect(bench.isAlive)
      bench.net.endAll()
    }

    // MARK: With a certificate

    /// A user of the machine who speaks plain HTTP over loopback, and gives the name of a peer. (Finding M2.)
    @Test func `without a certificate no client is a peer on loopback either`() throws {
      let bench = try HostileBench(isTLS: true)
      let net = bench.net
      try #require(
        net.wait { FileManager.default.fileExists(atPath: net.bench.path("state-hq/lock")) }, "\(net.logs)")
      var segment = HostileSegment("evil.x")
      segment.seal()
      let plain = HostilePusher(port: bench.port, files: nil)
      var isThere: Bool {
        (try? net.bench.run("/usr/bin/find", [net.bench.path("state-hq"), "-name", "evil.x"]).output.isEmpty) == false
      }
      func attack() {
        for _ in 0..<5 {
          #expect(plain.push(segment) != 200)
          #expect(plain.get("/cairn/1/trails") != 200 && plain.get("/cairn") != 200)
          usleep(200_000)
        }
        #expect(!isThere, "\(net.logs)")
        #expect(bench.hq.daemon?.isRunning == true)
      }
      attack()
      let push = try bench.joinOverTLS()
      attack()
      #expect(try push(segment) == "200", "\(net.logs)")
      #expect(isThere)
      net.endAll()
    }

    @Test func `the name in the certificate counts, not that in the header`() throws {
      let bench = try HostileBench(
        "[capture.erp]\ndatabase = \"erp\"\n",
        peer: "[peer.store]\nmay = { push = [\"store.*\"], pull = [\"hq.erp\"] }", isTLS: true)
      let push = try bench.joinOverTLS()
      #expect(try push(HostileSegment("evil.fine")) == "200", "\(bench.net.logs)")
      let header = ["-H", "Cairn-Node: store"]
      #expect(try bench.pushOverTLS(HostileSegment("store.x"), header) == "403")
      let segment = "\(HostileSegment("hq.erp").id)/00000001.seg?offset=0"
      for path in ["/cairn/1/trails/hq.erp", "/cairn/1/trails/hq.erp/\(segment)"] {
        #expect(try bench.askOverTLS(path, header) == "403", "\(path)")
      }
      #expect(try bench.askOverTLS("/cairn/1/trails/hq.erp/requests", header + ["-d", "{}"]) == "403")
      #expect(try bench.askOverTLS("/cairn/1/trails/hq.erp/questions", header + ["-d", "{}"]) == "403")
      bench.net.endAll()
    }

    @Test func `an invited peer stops no daemon over TLS either`() throws {
      let bench = try HostileBench(isTLS: true)
      let net = bench.net
      let push = try bench.joinOverTLS()
      #expect(try push(HostileSegment("evil.fine")) == "200", "\(net.logs)")
      var last = HostileSegment("evil.x", number: .max, first: 5)
      last.seal()
      #expect(try push(last) == "404")
      #expect(try push(HostileSegment("evil.y", created: .min)) == "422")
      var bomb = HostileSegment("evil.z")
      bomb.bomb(contentLength: 1 << 30)
      #expect(try push(bomb) == "400")
      #expect(try push(HostileSegment("hq.x")) == "403")
      #expect(bench.hq.daemon?.isRunning == true)
      net.end(bench.hq)
      try net.start(bench.hq)
      #expect(net.wait { (try? push(last)) == "404" }, "\(net.logs)")
      #expect(bench.hq.daemon?.isRunning == true)
      net.endAll()
    }
  }
}
