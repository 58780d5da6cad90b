//! Bugs that are built in on purpose, so that tests can show that they are found. Compiled with the cargo feature
//! `plants` alone, which no released program has.

/// A bug to build into the broker; what it changes is in `broker/plants.rs`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Plant {
    /// An abort makes staged acknowledgements final, as a commit does.
    AbortAcknowledges,
    /// A marker ends only what was staged at its own epoch, which is none from transaction version 2 on.
    EpochEquality,
    /// A marker ends what was staged at its own epoch, too, and a log takes it there, so that a late duplicate ends the
    /// next transaction.
    EpochAtOrBelow,
    /// The outcome of a transaction is merged by delivery count and then by state, so that it loses to the pending entry.
    CountThenState,
    /// A record whose stage failed is locked until its member goes.
    LockLostAfterFailedStage,
    /// The end of a session releases what is pending there.
    SessionCloseReleasesPending,
    /// Acknowledgements are staged before their partitions join the transaction.
    StageBeforeRegistration,
    /// A snapshot forgets who owns a pending entry.
    SnapshotWithoutOwners,
    /// After a load, what belongs to a decided commit is aborted.
    ReconcileAbortsCommit,
    /// A coordinator that takes over sends no markers for what was prepared before.
    MarkersNotResent,
    /// The start offset passes what is pending.
    StartPassesPending,
    /// What a transaction makes final is not counted.
    CompleteCountNotRaised,
    /// A fetch that waits is not woken by an abort.
    FetchNotWokenByAbort,
}

impl Plant {
    /// Every bug.
    pub const ALL: [Self; 13] = [
        Self::AbortAcknowledges,
        Self::EpochEquality,
        Self::EpochAtOrBelow,
        Self::CountThenState,
        Self::LockLostAfterFailedStage,
        Self::SessionCloseReleasesPending,
        Self::StageBeforeRegistration,
        Self::SnapshotWithoutOwners,
        Self::ReconcileAbortsCommit,
        Self::MarkersNotResent,
        Self::StartPassesPending,
        Self::CompleteCountNotRaised,
        Self::FetchNotWokenByAbort,
    ];
}
