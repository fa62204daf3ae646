/// The error for a stop signal that was set within a group of transactions, which is rolled back.
struct ApplyStopped: Error {}
