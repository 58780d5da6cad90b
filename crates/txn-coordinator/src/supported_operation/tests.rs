use super::SupportedOperation::{AddPartition, DefaultError, GenericErrorSupported};
use super::*;
use ErrorCode::{
    ConcurrentTransactions, CoordinatorNotAvailable, InvalidProducerEpoch, InvalidProducerIdMapping,
    InvalidTxnState, NotCoordinator, NotEnoughReplicas, ProducerFenced, TransactionAbortable,
};

#[test]
fn versions() {
    for (version, expected) in
        [(3, DefaultError), (10, DefaultError), (11, GenericErrorSupported), (12, AddPartition)]
    {
        assert_eq!(SupportedOperation::of_produce(version), expected, "{version}");
    }
    let of_commit = SupportedOperation::of_txn_offset_commit;
    for (version, expected) in
        [(3, DefaultError), (4, GenericErrorSupported), (5, AddPartition), (6, AddPartition)]
    {
        assert_eq!(of_commit(version), expected, "{version}");
    }
}

/// B069, B071, and the row about a partition that was not added.
#[test]
fn refusals_as_a_produce_answers_them() {
    let expected = [
        (ProducerFenced, [InvalidProducerEpoch; 3]),
        (TransactionAbortable, [InvalidTxnState, TransactionAbortable, TransactionAbortable]),
        (ConcurrentTransactions, [NotEnoughReplicas, NotEnoughReplicas, ConcurrentTransactions]),
        (CoordinatorNotAvailable, [NotEnoughReplicas; 3]),
        (NotCoordinator, [NotEnoughReplicas; 3]),
        (InvalidProducerIdMapping, [InvalidProducerIdMapping; 3]),
    ];
    for (refusal, answers) in expected {
        for (operation, answer) in
            [DefaultError, GenericErrorSupported, AddPartition].into_iter().zip(answers)
        {
            assert_eq!(operation.produce_error(refusal), answer, "{operation:?} {refusal}");
        }
    }
    assert_eq!(AddPartition.leader_error(NotCoordinator), NotCoordinator);
}
