/// The stop signal was set within a group of transactions, which is rolled back.
struct ApplyStopped: Error {}
