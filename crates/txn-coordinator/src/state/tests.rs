use super::TransactionState::{
    self, CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit,
};
use super::*;

#[test]
fn transitions_are_those_of_kafka() {
    let allowed = [
        (Empty, Empty),
        (Empty, Ongoing),
        (Empty, PrepareAbort),
        (Ongoing, Ongoing),
        (Ongoing, PrepareCommit),
        (Ongoing, PrepareAbort),
        (PrepareCommit, CompleteCommit),
        (PrepareAbort, CompleteAbort),
        (CompleteCommit, Empty),
        (CompleteCommit, Ongoing),
        (CompleteCommit, PrepareAbort),
        (CompleteAbort, Empty),
        (CompleteAbort, Ongoing),
        (CompleteAbort, PrepareAbort),
    ];
    for from in TransactionState::ALL {
        for to in TransactionState::ALL {
            assert_eq!(from.can_become(to), allowed.contains(&(from, to)), "{from:?} to {to:?}");
        }
    }
}

#[test]
fn numbers_and_names_lead_back() {
    let expected = [
        (0, "Empty"),
        (1, "Ongoing"),
        (2, "PrepareCommit"),
        (3, "PrepareAbort"),
        (4, "CompleteCommit"),
        (5, "CompleteAbort"),
    ];
    for (state, (status, name)) in TransactionState::ALL.into_iter().zip(expected) {
        assert_eq!((state.status(), state.name()), (status, name));
        assert_eq!(TransactionState::from_status(status), Some(state));
        assert_eq!(TransactionState::from_name(name), Some(state));
    }
    for status in [-1, 6, 7, 8] {
        assert_eq!(TransactionState::from_status(status), None, "{status}");
    }
    for name in ["", "Dead", "PrepareEpochFence", "ongoing"] {
        assert_eq!(TransactionState::from_name(name), None, "{name}");
    }
}

#[test]
fn outcomes_of_states() {
    let expected = [
        (Empty, None, None, false),
        (Ongoing, None, None, true),
        (PrepareCommit, Some(Outcome::Commit), None, true),
        (PrepareAbort, Some(Outcome::Abort), None, true),
        (CompleteCommit, None, Some(Outcome::Commit), false),
        (CompleteAbort, None, Some(Outcome::Abort), false),
    ];
    for (state, prepared, completed, is_open) in expected {
        assert_eq!((state.prepared(), state.completed(), state.is_open()), (prepared, completed, is_open));
    }
    for outcome in [Outcome::Commit, Outcome::Abort] {
        assert_eq!(Outcome::from_committed(outcome.is_commit()), outcome);
    }
}
