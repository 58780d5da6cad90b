//! Requests that no well-behaved client sends.

use sharemark_protocol::messages as m;
use sharemark_testkit::transcript::Session;

use m::txn_share_acknowledge_request::{
    AcknowledgePartition, AcknowledgeTopic, AcknowledgementBatch, TxnShareAcknowledgeRequest,
};

use super::{run, with_session};
use sharemark_protocol::TopicId;

/// Acquires `count` records of t-0 for member A, and returns a request of producer `x` without topics.
fn prepared(session: &mut Session<'_>, count: usize) -> TxnShareAcknowledgeRequest {
    let setup = format!(
        "create-topic t
         group-config g share.auto.offset.reset=earliest
         produce t-0 count={count}
         join member=A topics=t
         share-fetch member=A max-records=5000
         init-producer x txn=x"
    );
    run(session, &setup);
    let producer = session.producer("x").unwrap().clone();
    TxnShareAcknowledgeRequest {
        transactional_id: Some("x".into()),
        group_id: "g".into(),
        producer_id: producer.id,
        producer_epoch: producer.epoch,
        member_id: "A".into(),
        member_epoch: session.member("g", "A").epoch,
        topics: Vec::new(),
    }
}

fn batch(first_offset: i64, last_offset: i64, acknowledge_types: &[i8]) -> AcknowledgementBatch {
    AcknowledgementBatch { first_offset, last_offset, acknowledge_types: acknowledge_types.to_vec() }
}

fn topic(topic_id: TopicId, acknowledgement_batches: Vec<AcknowledgementBatch>) -> AcknowledgeTopic {
    AcknowledgeTopic {
        topic_id,
        partitions: vec![AcknowledgePartition { partition_index: 0, acknowledgement_batches }],
    }
}

/// The codes that came, one for each partition.
fn codes(session: &mut Session<'_>, request: &TxnShareAcknowledgeRequest) -> Vec<i16> {
    let answer = session.call(request, 0).unwrap();
    assert_eq!(answer.error_code, 0);
    answer.responses.iter().flat_map(|topic| &topic.partitions).map(|it| it.error_code).collect()
}

#[test]
fn offsets_at_the_edges_of_numbers_are_refused() {
    with_session(&[], |session| {
        let mut request = prepared(session, 4);
        let t = session.names.topic_id("t").unwrap();
        let edges = [
            (-1, 0),
            (-1, -1),
            (i64::MIN, i64::MAX),
            (i64::MIN, i64::MIN),
            (i64::MIN, 3),
            (0, i64::MAX),
            (i64::MAX, i64::MAX),
            (i64::MAX, i64::MIN),
            (3, i64::MIN),
        ];
        for (first, last) in edges {
            for types in [&[1][..], &[1, 1], &[], &[0; 300]] {
                request.topics = vec![topic(t, vec![batch(first, last, types)])];
                assert_eq!(codes(session, &request), [42], "{first}-{last} {types:?}");
            }
        }
        let kept = run(session, "share-acknowledge member=A t-0 accept 0-3\ndescribe-share-offsets");
        assert!(kept.starts_with("t-0 NONE\n") && kept.ends_with("lag=0\n"), "{kept}");
    });
}

#[test]
fn thousands_of_batches_are_staged_and_end_together() {
    with_session(&[], |session| {
        let mut request = prepared(session, 2000);
        let t = session.names.topic_id("t").unwrap();
        // Every other record, half of them as gaps, so that no two neighbours are joined.
        let batches =
            (0..1000).map(|index| batch(index * 2, index * 2, &[i8::from(index % 2 == 0)])).collect();
        request.topics = vec![topic(t, batches)];
        assert_eq!(codes(session, &request), [0]);
        assert_eq!(codes(session, &request), [0], "a repeat of all of it succeeds");
        let ended = run(session, "end-txn x commit\ndescribe-share-offsets");
        assert!(ended.ends_with("lag=1000\n"), "{ended}");
        let rest = run(session, "share-acknowledge member=A t-0 accept 1");
        assert_eq!(rest, "t-0 NONE\n", "what was not staged is still the member's");
    });
}

/// An offset named over and over in one request is malformed, before anybody looks at its record.
#[test]
fn one_offset_named_a_hundred_thousand_times_is_an_overlap() {
    with_session(&[], |session| {
        let mut request = prepared(session, 1);
        run(session, "share-acknowledge member=A t-0 accept 0\nproduce t-0 count=1\nshare-fetch member=A");
        let t = session.names.topic_id("t").unwrap();
        request.topics = vec![topic(t, vec![batch(0, 0, &[1]); 100_000])];
        assert_eq!(codes(session, &request), [42]);
        request.topics = vec![topic(t, vec![batch(0, 0, &[1])])];
        assert_eq!(codes(session, &request), [121], "it is done already, and not by this transaction");
    });
}

/// The answers are put together in one pass, and each partition has its own.
#[test]
fn a_hundred_thousand_topics_are_answered_one_by_one() {
    with_session(&[], |session| {
        let mut request = prepared(session, 1);
        let t = session.names.topic_id("t").unwrap();
        let unknown = |index: u128| TopicId::from_bytes((index + 1).to_be_bytes());
        request.topics = (0..100_000).map(|index| topic(unknown(index), vec![batch(0, 0, &[1])])).collect();
        request.topics.push(topic(t, vec![batch(0, 0, &[1])]));
        let answered = codes(session, &request);
        assert_eq!(answered.len(), 100_001);
        assert!(answered[..100_000].iter().all(|code| *code == 100), "unknown topics are told as such");
        assert_eq!(answered[100_000], 0, "and the one that is known is staged");
    });
}

/// Partitions named again and again are each refused, and nothing of them is staged.
#[test]
fn a_partition_named_ten_thousand_times_is_refused_each_time() {
    with_session(&[], |session| {
        let mut request = prepared(session, 2);
        let t = session.names.topic_id("t").unwrap();
        request.topics = vec![topic(t, vec![batch(0, 0, &[1])]); 10_000];
        assert_eq!(codes(session, &request), [42; 10_000]);
        let kept = run(session, "share-acknowledge member=A t-0 release 0");
        assert_eq!(kept, "t-0 NONE\n");
    });
}

#[test]
fn empty_requests_stage_nothing() {
    with_session(&[], |session| {
        let mut request = prepared(session, 1);
        let t = session.names.topic_id("t").unwrap();
        assert_eq!(codes(session, &request), [0; 0]);
        request.topics = vec![AcknowledgeTopic { topic_id: t, partitions: Vec::new() }];
        assert_eq!(codes(session, &request), [0; 0]);
        request.topics = vec![topic(t, Vec::new())];
        assert_eq!(codes(session, &request), [0]);
        let log = run(session, "share-log\nend-txn x commit\nshare-acknowledge member=A t-0 accept 0");
        assert!(!log.contains("TX_PENDING") && log.ends_with("t-0 NONE\n"), "{log}");
    });
}

/// Many transactions at once over one share partition, all of which end on their own.
#[test]
fn hundreds_of_transactions_wait_side_by_side() {
    with_session(&[], |session| {
        prepared(session, 300);
        for index in 0..300 {
            let staged = run(
                session,
                &format!(
                    "init-producer q{index} txn=q{index}
                     txn-share-acknowledge producer=q{index} member=A t-0 accept {index}"
                ),
            );
            assert!(staged.ends_with("t-0 NONE\n"), "{staged}");
        }
        for index in (0..300).rev() {
            let outcome = if index % 3 == 0 { "abort" } else { "commit" };
            let ended = run(session, &format!("end-txn q{index} {outcome}"));
            assert!(ended.starts_with("NONE"), "{ended}");
        }
        let told = run(session, "describe-share-offsets\nshare-fetch member=A wait=0");
        assert!(told.starts_with("t-0 NONE start_offset=0 lag=100\n"), "{told}");
        assert_eq!(told.matches("x2").count(), 100, "each of the aborted ones is delivered again: {told}");
    });
}

/// The end of a transaction at a producer's last epoch exchanges its id; what was staged under the old one counts.
#[test]
fn the_last_epoch_of_a_producer_ends_what_it_staged() {
    const EPOCH_MAX: i16 = i16::MAX - 1;
    for (outcome, lag) in [("commit", 1), ("abort", 2)] {
        with_session(&[], |session| {
            prepared(session, 2);
            while session.producer("x").unwrap().epoch < EPOCH_MAX {
                run(session, "init-producer x txn=x");
            }
            let old = session.producer("x").unwrap().clone();
            let ended = run(
                session,
                &format!(
                    "txn-share-acknowledge producer=x member=A t-0 accept 0
                     end-txn x {outcome}
                     describe-share-offsets"
                ),
            );
            assert!(ended.starts_with("t-0 NONE\nNONE"), "{ended}");
            assert!(ended.ends_with(&format!("lag={lag}\n")), "{outcome}: {ended}");
            let new = session.producer("x").unwrap().clone();
            assert!(new.id != old.id && new.epoch == 0, "the id is exchanged");
            let next = run(
                session,
                "txn-share-acknowledge producer=x member=A t-0 accept 1\nend-txn x commit\ndescribe-share-offsets",
            );
            assert!(next.ends_with(&format!("lag={}\n", lag - 1)), "{outcome}: {next}");
            session.producers.insert("old".into(), old);
            let refused = run(session, "txn-share-acknowledge producer=old member=A t-0 accept 1");
            assert_eq!(refused, "INVALID_PRODUCER_ID_MAPPING nothing\n");
        });
    }
}
