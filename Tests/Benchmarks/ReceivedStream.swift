import PostgresKit
import TestServers

/// The best rate of the server's decoding: `pg_recvlogical` writes the stream of `pgoutput` to a file.
struct ReceivedStream {
  private static let slot = "bench_stream"
  let stage: Stage
  let url: String

  /// Creates the slot, which receives everything that is committed from here on.
  init(_ stage: Stage, _ source: PostgresConnection, url: String) throws {
    (self.stage, self.url) = (stage, url)
    try source.query("SELECT pg_create_logical_replication_slot('\(Self.slot)', 'pgoutput')")
  }

  /// Receives everything up to a position. Returns the time in seconds.
  func drain(to end: LSN) throws -> Double {
    let server = try stage.server(.source)
    return try MeasuredRun(
      server.path(of: "pg_recvlogical"),
      [
        "-d", url, "--slot", Self.slot, "--start", "--no-loop", "--endpos", end.description, "-f",
        stage.path("stream"), "-o", "proto_version=1", "-o", "publication_names=\(NativeReplication.publication)",
      ], in: stage.folder
    ).seconds
  }
}
