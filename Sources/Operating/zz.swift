enum StateFolders { static func base() -> String { "/tmp/cairn-state" } }
