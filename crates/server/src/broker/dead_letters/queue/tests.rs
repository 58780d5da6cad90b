use sharemark_protocol::Offset;

use super::*;

fn range(first: i64, last: i64) -> OffsetRange {
    let offset = |raw| Offset::new(raw).unwrap();
    OffsetRange::new(offset(first), offset(last)).unwrap()
}

fn key(group: &str) -> SharePartitionKey {
    SharePartitionKey { group_id: group.into(), topic_id: TopicId::from_bytes([7; 16]), partition: 0 }
}

fn epochs() -> (StateEpoch, LeaderEpoch) {
    (StateEpoch::new(1), LeaderEpoch::new(0))
}

fn begin(queue: &mut DeadLetters, waiting: &[(OffsetRange, i16)]) -> Vec<(OffsetRange, Cause)> {
    let begun = queue.begin(&key("g"), epochs(), waiting, 3);
    begun.into_iter().filter_map(|id| queue.get(id)).map(|letter| (letter.range, letter.cause)).collect()
}

#[test]
fn what_was_rejected_is_told_from_what_failed_too_often() {
    let mut queue = DeadLetters::default();
    queue.note_rejected(&key("g"), vec![range(2, 3), range(3, 3), range(9, 9)]);
    let waiting = [(range(0, 5), 3), (range(7, 7), 1), (range(9, 9), 3)];
    let (rejected, failed) = (Cause::Rejected, Cause::DeliveredTooOften);
    let expected = [
        (range(0, 1), failed),
        (range(2, 3), rejected),
        (range(4, 5), failed),
        (range(7, 7), rejected),
        (range(9, 9), rejected),
    ];
    assert_eq!(begin(&mut queue, &waiting), expected);
}

#[test]
fn what_is_under_way_is_not_begun_again() {
    let mut queue = DeadLetters::default();
    assert_eq!(begin(&mut queue, &[(range(2, 3), 1)]).len(), 1);
    let begun: Vec<_> = begin(&mut queue, &[(range(0, 5), 1)]).into_iter().map(|(range, _)| range).collect();
    assert_eq!(begun, [range(0, 1), range(4, 5)]);
}

#[test]
fn a_group_is_forgotten_after_its_last_copy() {
    let mut queue = DeadLetters::default();
    let ids = queue.begin(&key("g"), epochs(), &[(range(0, 0), 1), (range(2, 2), 1)], 3);
    queue.begin(&key("h"), epochs(), &[(range(0, 0), 1)], 3);
    assert!(queue.puts_off_forgetting(&"g".into()));
    assert!(!queue.puts_off_forgetting(&"f".into()));
    let forgets: Vec<bool> =
        ids.iter().filter_map(|id| queue.finish(*id)).map(|(_, forget)| forget).collect();
    assert_eq!(forgets, [false, true]);
}

#[test]
fn a_dropped_share_partition_is_not_tried_again() {
    let mut queue = DeadLetters::default();
    let ids = queue.begin(&key("g"), epochs(), &[(range(0, 0), 1)], 3);
    let at = Timestamp::from_ms(500);
    queue.retry_at(at, ids[0]);
    assert_eq!(queue.first_retry(), Some(at));
    assert_eq!(queue.pop_due(Timestamp::from_ms(499)), None);
    queue.forget(&key("g"));
    assert_eq!((queue.first_retry(), queue.get(ids[0]).is_some()), (None, false));
}
