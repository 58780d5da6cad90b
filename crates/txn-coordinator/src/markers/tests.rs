use super::*;

fn partition(index: i32) -> TopicPartition {
    TopicPartition::new("t", index)
}

fn queue(indexes: &[i32]) -> (MarkerQueue, Offset) {
    let mut queue = MarkerQueue::default();
    let prepared_at = Offset::ZERO;
    queue.add(prepared_at, "x".into(), &indexes.iter().map(|&index| partition(index)).collect());
    queue.check_invariants();
    (queue, prepared_at)
}

const NOW: Timestamp = Timestamp::from_ms(100);

#[test]
fn markers_go_out_once_and_the_last_answer_completes() {
    let (mut queue, at) = queue(&[0, 1]);
    assert_eq!(queue.poll_markers(NOW), Some((at, "x".into(), vec![partition(0), partition(1)])));
    assert_eq!(queue.poll_markers(NOW), None);
    assert_eq!(queue.poll_completion(NOW), None);
    assert_eq!(queue.confirm(at, &partition(0)), MarkerProgress::Owed);
    assert_eq!(queue.confirm(at, &partition(0)), MarkerProgress::Stale);
    assert_eq!(queue.confirm(at, &partition(7)), MarkerProgress::Stale);
    assert!(!queue.is_complete(at));
    assert_eq!(queue.confirm(at, &partition(1)), MarkerProgress::Complete);
    queue.check_invariants();
    assert!(queue.is_complete(at));
    assert_eq!(queue.poll_completion(NOW), Some((at, "x".into())));
    assert_eq!(queue.poll_completion(NOW), None);
    queue.remove(at);
    queue.check_invariants();
    assert_eq!(queue.confirm(at, &partition(1)), MarkerProgress::Stale);
    assert_eq!(queue.poll_timeout(), None);
}

#[test]
fn a_failed_marker_goes_out_again_alone_and_later() {
    let (mut queue, at) = queue(&[0, 1]);
    queue.poll_markers(NOW);
    let retry_at = NOW.plus_ms(50);
    assert_eq!(queue.fail(at, &partition(1), retry_at), MarkerProgress::Owed);
    assert_eq!(queue.fail(at, &partition(1), retry_at), MarkerProgress::Stale);
    queue.check_invariants();
    assert_eq!(queue.poll_timeout(), Some(retry_at));
    assert_eq!(queue.poll_markers(NOW), None);
    assert_eq!(queue.poll_markers(retry_at), Some((at, "x".into(), vec![partition(1)])));
    assert_eq!(queue.confirm(at, &partition(1)), MarkerProgress::Owed);
    assert_eq!(queue.confirm(at, &partition(0)), MarkerProgress::Complete);
    queue.check_invariants();
}

/// The first failure sets the date, and all that failed until then goes out together.
#[test]
fn several_failed_markers_go_out_again_together() {
    let (mut queue, at) = queue(&[0, 1]);
    queue.poll_markers(NOW);
    queue.fail(at, &partition(1), NOW.plus_ms(50));
    queue.fail(at, &partition(0), NOW.plus_ms(60));
    queue.check_invariants();
    assert_eq!(queue.poll_markers(NOW.plus_ms(49)), None);
    let again = Some((at, "x".into(), vec![partition(0), partition(1)]));
    assert_eq!(queue.poll_markers(NOW.plus_ms(50)), again);
    assert_eq!(queue.poll_timeout(), None);
}

#[test]
fn an_answer_may_overtake_the_retry() {
    let (mut queue, at) = queue(&[0]);
    queue.poll_markers(NOW);
    queue.fail(at, &partition(0), NOW.plus_ms(50));
    assert_eq!(queue.confirm(at, &partition(0)), MarkerProgress::Complete);
    queue.check_invariants();
    assert_eq!(queue.poll_markers(Timestamp::MAX), None);
    assert_eq!(queue.poll_completion(NOW), Some((at, "x".into())));
}

#[test]
fn an_answer_may_overtake_the_retry_while_another_marker_is_out() {
    let (mut queue, at) = queue(&[0, 1]);
    queue.poll_markers(NOW);
    queue.fail(at, &partition(1), NOW.plus_ms(50));
    assert_eq!(queue.confirm(at, &partition(1)), MarkerProgress::Owed);
    queue.check_invariants();
    assert_eq!(queue.poll_timeout(), None);
    queue.fail(at, &partition(0), NOW.plus_ms(60));
    queue.check_invariants();
    assert_eq!(queue.poll_timeout(), Some(NOW.plus_ms(60)));
    assert_eq!(queue.confirm(at, &partition(0)), MarkerProgress::Complete);
    queue.check_invariants();
}

#[test]
fn without_partitions_the_end_is_due_at_once_and_again_after_a_failure() {
    let (mut queue, at) = queue(&[]);
    assert_eq!(queue.poll_markers(NOW), None);
    assert_eq!(queue.poll_completion(NOW), Some((at, "x".into())));
    queue.fail_completion(at, NOW.plus_ms(9));
    queue.fail_completion(at, NOW.plus_ms(10));
    queue.check_invariants();
    assert_eq!(queue.poll_completion(NOW.plus_ms(8)), None);
    assert_eq!(queue.poll_completion(NOW.plus_ms(9)), Some((at, "x".into())));
}
