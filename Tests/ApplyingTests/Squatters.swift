import Applying
import Changes
import Mapping
import TestServers
import Testing

/// The target of tests in which one role has made objects under the names that tables of a trail need.
enum Squatters {
  /// A target of a role that is no superuser, and a role that may create objects there.
  /// - Parameter squat: The statements of the other role before the first apply.
  static func started(isListed: Bool = false, squat: String = "") throws -> PostgresTarget {
    let target = try PostgresTarget()
    for role in ["squatted", "squatter"] {
      try target.psql(
        "DO $$ BEGIN CREATE ROLE \(role) LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$")
    }
    try target.psql(
      """
      GRANT SET ON PARAMETER session_replication_role TO squatted; ALTER DATABASE \(target.name) OWNER TO squatted;
      ALTER SCHEMA public OWNER TO squatted; GRANT CREATE ON SCHEMA public TO squatter
      """)
    if !squat.isEmpty { try target.psql("SET ROLE squatter; \(squat)") }
    if isListed { target.options.scope = TargetScope(["item", "k"]) }
    try target.shape(postgres: "CREATE TABLE item(id integer PRIMARY KEY)")
    try target.trail.transaction {
      try target.trail.create("item")
      try target.trail.copy("item", [[.exact("1")]])
    }
    #expect(problem(target) == nil)
    return target
  }

  /// The code of the error with which an apply ends; nil: none.
  static func problem(_ target: PostgresTarget) -> String? {
    do { try target.open(user: "squatted").drain() } catch let error as CairnError { return error.code.rawValue } catch
    {
      return "\(error)"
    }
    return nil
  }
}
