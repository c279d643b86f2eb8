//! What can be wrong with an API that takes idempotency keys.

/// One fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// A refused request has an effect all the same.
    ActsOnRefusal,
    /// While the first runs, others get a 500.
    BreaksWhileItRuns,
    /// A key that it cannot read is a 500.
    BreaksOnOddKeys,
    /// A key with its content is the identity: other content is another intent.
    ContentIsIdentity,
    /// The count of effects never moves.
    CountsNothing,
    /// When the client is gone, the run is forgotten after its effect.
    DiesWithTheClient,
    /// Numbers are compared as doubles.
    Doubles,
    /// Keys that differ in case are one.
    FoldsCase,
    /// Keys are not compared with the content.
    ForgetsContent,
    /// A key is one key at every operation.
    ForgetsOperation,
    /// A key is one key for every caller.
    ForgetsTenant,
    /// Keys are not looked at.
    IgnoresKeys,
    /// Keys are kept in memory alone.
    KeysInMemory,
    /// It looks for the key first, and writes it down later.
    LooksThenInserts,
    /// Other content gets the status of a first that still runs: no fault where it is documented.
    OneRefusal,
    /// The outcome is kept after the effect, not with it.
    OutcomeAfterEffect,
    /// A replay is written anew, with other white space.
    PrettyReplays,
    /// Bytes are compared, not content.
    RawBytes,
    /// A deleted order is made again by a retry.
    RecreatesDeleted,
    /// A retry shows the order as it is now.
    ReplaysCurrent,
    /// After the outcome's life it is replayed to whatever comes.
    ReplaysStale,
    /// After the outcome's life the same key runs again.
    RunsLate,
    /// An empty key is no key, and runs.
    RunsOnEmptyKeys,
    /// A request without a key runs.
    RunsWithoutKey,
    /// Keys are cut after 64 characters.
    TruncatesKeys,
    /// A replay is not marked.
    Unmarked,
}
