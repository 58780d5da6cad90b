use crate::support::{builder, hold_records, metrics, run, server, sum, with_session};

const ACKNOWLEDGED: &str = "kafka_server_ShareGroupMetrics_RecordAcknowledgementsPerSec_total";
const PARTITION: [&str; 3] = [r#"group="g""#, r#"topic="t""#, r#"partition="0""#];

fn acknowledged(text: &str, kind: &str) -> f64 {
    sum(text, ACKNOWLEDGED, &[&format!("ackType=\"{kind}\"")])
}

#[test]
fn share_groups_are_counted_as_in_kafka() {
    let server = server();
    with_session(&server, |session| {
        hold_records(session, 10);
        run(session, "share-acknowledge member=A epoch=1 t-0 accept 0-2 release 3 reject 4-5");
        let refused = run(session, "share-acknowledge member=A epoch=2 t-0 accept 3");
        assert!(refused.contains("INVALID_RECORD_STATE"), "{refused}");
        let text = metrics(&server);
        let counts = ["Accept", "Release", "Reject", "Renew"].map(|kind| acknowledged(&text, kind));
        assert_eq!(counts, [3.0, 1.0, 2.0, 0.0]);
        let gauge =
            |name: &str| sum(&text, &format!("kafka_server_SharePartitionMetrics_{name}"), &PARTITION);
        assert_eq!(gauge("InFlightMessageCount"), 7.0, "3 to 9");
        assert_eq!(gauge("InFlightBatchCount"), 1.0);
        assert_eq!(gauge("InFlightBatchMessageCount_count"), 1.0);
        assert_eq!(gauge("InFlightBatchMessageCount_sum"), 10.0);
        let topics = |name: &str| sum(&text, &format!("kafka_server_BrokerTopicMetrics_{name}_total"), &[]);
        assert_eq!(topics("TotalShareFetchRequestsPerSec"), 1.0);
        assert_eq!(topics("FailedShareFetchRequestsPerSec"), 0.0);
        assert_eq!(topics("TotalShareAcknowledgementRequestsPerSec"), 2.0);
        assert_eq!(topics("FailedShareAcknowledgementRequestsPerSec"), 1.0);
        let groups = "kafka_server_group_coordinator_metrics_share_group_count";
        assert_eq!(sum(&text, groups, &[r#"state="Stable""#]), 1.0);
        assert_eq!(sum(&text, groups, &[r#"state="Empty""#]), 0.0);
        let by_group =
            |name: &str| sum(&text, &format!("kafka_server_ShareGroupMetrics_{name}"), &PARTITION[..1]);
        assert_eq!(by_group("RequestTopicPartitionsFetchRatio_sum"), 100.0);
        assert_eq!(by_group("TopicPartitionsAcquireTimeMs_count"), 1.0);
        assert_eq!(sum(&text, "kafka_server_ShareGroupMetrics_PartitionLoadTimeMs_count", &[]), 1.0);
        assert_eq!(sum(&text, "sharemark_share_delivery_count_sum", &[]), 10.0, "ten records, each once");
        let requests = |name: &str| sum(&text, "kafka_network_RequestMetrics_RequestsPerSec_total", &[name]);
        assert_eq!(requests(r#"request="ShareAcknowledge""#), 2.0);
        assert_eq!(requests(r#"request="ShareFetch""#), 1.0);
        let times = "kafka_network_RequestMetrics_TotalTimeMs_count";
        assert_eq!(sum(&text, times, &[r#"request="ShareFetch""#]), 1.0);
    });
}

#[test]
fn renewals_are_counted_once_they_are_in_force() {
    let server = server();
    let renewed = || acknowledged(&metrics(&server), "Renew");
    with_session(&server, |session| {
        run(session, "create-topic t");
        run(session, "group-config g share.auto.offset.reset=earliest");
        run(session, "join member=A topics=t");
        run(session, "produce t-0 count=10");
        run(session, "share-fetch member=A epoch=0 t-0");
        run(session, "share-acknowledge member=A epoch=1 renewing t-0 accept 0 renew 1-2 types:1/4 3-4");
        assert_eq!(renewed(), 3.0);
        run(session, "share-fetch member=A epoch=2 renewing ack t-0 renew 5-6");
        assert_eq!(renewed(), 5.0);
        let refused = run(session, "share-acknowledge member=A epoch=3 t-0 renew 7");
        assert!(refused.contains("INVALID_REQUEST"), "{refused}");
        assert_eq!(renewed(), 5.0);
    });
}

#[test]
fn dead_letters_are_counted_by_group() {
    let server = server();
    with_session(&server, |session| {
        run(session, "create-topic t");
        run(session, "create-topic dlq.d errors.deadletterqueue.group.enable=true max.message.bytes=300");
        run(
            session,
            "group-config g share.auto.offset.reset=earliest errors.deadletterqueue.topic.name=dlq.d",
        );
        run(session, "join member=A topics=t");
        run(session, "produce t-0 count=4");
        run(session, "share-fetch member=A epoch=0 t-0");
        run(session, "share-acknowledge member=A epoch=1 t-0 reject 0-2");
        run(session, "alter-configs topic dlq.d max.message.bytes=100");
        run(session, "share-acknowledge member=A epoch=2 t-0 reject 3");
    });
    let text = metrics(&server);
    let count = |name: &str| {
        sum(&text, &format!("kafka_server_ShareGroupMetrics_DeadLetterQueue{name}_total"), &PARTITION[..1])
    };
    assert_eq!(count("RecordCount"), 3.0);
    assert_eq!(count("TotalProduceRequestsPerSec"), 4.0, "one record fits, three times, and one does not");
    assert_eq!(count("FailedProduceRequestsPerSec"), 1.0);
}

#[test]
fn pending_records_are_counted_until_their_transaction_ends() {
    let server = server();
    let pending =
        || sum(&metrics(&server), "kafka_server_ShareGroupMetrics_TxnPendingRecordsCount", &[r#"node="0""#]);
    with_session(&server, |session| {
        run(session, "create-topic t");
        run(session, "group-config g share.auto.offset.reset=earliest");
        run(session, "join member=A topics=t");
        run(session, "produce t-0 count=5");
        run(session, "init-producer p1 txn=x");
        run(session, "share-fetch member=A epoch=0 t-0");
        assert_eq!(pending(), 0.0);
        let staged = run(session, "txn-share-acknowledge producer=p1 member=A t-0 accept 0-2");
        assert!(staged.contains("NONE"), "{staged}");
        assert_eq!(pending(), 3.0);
        run(session, "end-txn p1 commit");
        assert_eq!(pending(), 0.0);
    });
    let staged = "kafka_server_ShareGroupMetrics_TxnShareAcknowledgeRequestLatencyMs_count";
    assert_eq!(sum(&metrics(&server), staged, &[r#"node="0""#]), 1.0);
}

#[test]
fn requests_are_counted_by_node() {
    let server = builder().config(|config| config.brokers(2)).start().unwrap();
    let requests = |node: &str| {
        let name = "kafka_network_RequestMetrics_RequestsPerSec_total";
        sum(&metrics(&server), name, &[node, r#"request="ListGroups""#])
    };
    with_session(&server, |session| {
        run(session, "list-groups");
    });
    assert_eq!([requests(r#"node="0""#), requests(r#"node="1""#)], [1.0, 0.0]);
}
