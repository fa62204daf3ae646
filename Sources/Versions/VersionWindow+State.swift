import Changes
import SystemKit
import Trails

extension VersionWindow {
  /// Keeps from where the trails are to be read at the next start, and what their origins know. A file that is lost costs
  /// a longer start.
  package func save(to path: String) throws {
    var kept: [WindowFile.Kept] = []
    for (trail, folder) in allFolders {
      guard let end = try Trail.end(folder: folder) else { continue }
      kept.append(try self.kept(of: trail, end.id))
    }
    do throws(FileError) { try WindowFile(trails: kept).write(path) } catch {
      throw error.asCairnError(doing: "keep the versions of \(own)")
    }
  }

  /// Takes what ``save(to:)`` kept, before the first trail is read. `applied`: through which transaction the database holds
  /// each peer's trail.
  ///
  /// Where the file does not fit, all trails are read from their beginnings: when it is missing or damaged, a trail or the
  /// database was put back or made anew since, or a peer has been added.
  package func load(from path: String, applied: [TrailName: UInt64]) throws {
    let file: WindowFile?
    do throws(FileError) { file = try WindowFile.read(path) } catch {
      throw error.asCairnError(doing: "read the versions of \(own)")
    }
    guard let file else { return }
    var fitting: [WindowFile.Kept] = []
    for (trail, folder) in allFolders {
      let end = try Trail.end(folder: folder)
      guard let kept = file.trails.first(where: { $0.trail == trail }) else {
        // It has never had a transaction.
        if end == nil { continue }
        return
      }
      let reached = trail == own ? end?.lastTransaction ?? 0 : applied[trail] ?? 0
      guard kept.id == end?.id, kept.number <= reached else { return }
      fitting.append(kept)
    }
    take(fitting)
  }
}
