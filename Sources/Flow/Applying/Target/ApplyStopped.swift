/// The error when the stop signal is set in the middle of a group. The group is rolled back.
struct ApplyStopped: Error {}
