//! What happened in runs, counted: a run that meets no trouble shows nothing.

/// Something that has to happen often enough.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Event {
    /// The leader of a source partition failed while acknowledgements of its records were pending.
    SourceLeaderFailover,
    /// The share coordinator of pending acknowledgements failed.
    ShareCoordinatorFailover,
    /// The coordinator of a transaction with pending acknowledgements failed.
    TransactionCoordinatorFailover,
    /// A node failed while a marker was held back.
    MarkerHeldAcrossFailover,
    /// A marker came again while the producer's next transaction had pending acknowledgements.
    LateDuplicateMarker,
    /// A stage reached its node after the transaction was decided.
    StageAfterEnd,
    /// A snapshot was written with pending acknowledgements in it.
    SnapshotWhilePending,
    /// The log below a staged batch was pruned while its acknowledgements were pending.
    PruneWhilePending,
    /// The process crashed between two flushes of one transaction.
    CrashBetweenFlushes,
    /// A lock ended while its record was being staged, or before the stage arrived.
    ExpiryRacesStage,
    /// A session closed while acknowledgements of its member were pending.
    SessionClosedWhilePending,
    /// An abort gave records up, as they had been delivered as often as they may be.
    DeliveryLimitAtAbort,
    /// Offsets of a group were set while acknowledgements of it were pending.
    OffsetResetWhilePending,
    /// A node that was cut off answered a fetch of records that it led before.
    IsolatedLeaderAnswers,
}

impl Event {
    /// Every event, with its name.
    pub const ALL: [(Self, &'static str); 14] = [
        (Self::SourceLeaderFailover, "source leader fails with pending records"),
        (Self::ShareCoordinatorFailover, "share coordinator fails with pending records"),
        (Self::TransactionCoordinatorFailover, "transaction coordinator fails with pending records"),
        (Self::MarkerHeldAcrossFailover, "marker held across a failover"),
        (Self::LateDuplicateMarker, "late duplicate marker"),
        (Self::StageAfterEnd, "stage arrives after the end"),
        (Self::SnapshotWhilePending, "snapshot while pending"),
        (Self::PruneWhilePending, "prune while pending"),
        (Self::CrashBetweenFlushes, "crash between two flushes of one transaction"),
        (Self::ExpiryRacesStage, "expiry races a stage"),
        (Self::SessionClosedWhilePending, "session closed with pending records"),
        (Self::DeliveryLimitAtAbort, "delivery limit met at an abort"),
        (Self::OffsetResetWhilePending, "offset reset with pending records"),
        (Self::IsolatedLeaderAnswers, "isolated leader still answers"),
    ];
}

/// How often each event happened.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Coverage {
    counts: [u64; Event::ALL.len()],
}

impl Coverage {
    pub(super) fn note(&mut self, event: Event) {
        self.counts[event as usize] += 1;
    }

    /// Returns how often an event happened.
    pub const fn count(&self, event: Event) -> u64 {
        self.counts[event as usize]
    }

    /// Adds what happened in another run.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
    }
}

impl std::fmt::Display for Coverage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (event, name) in Event::ALL {
            writeln!(f, "{:>10}  {name}", self.count(event))?;
        }
        Ok(())
    }
}
