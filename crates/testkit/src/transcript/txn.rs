//! Commands of transactional producers, and of transactional share acknowledgements.

use std::collections::BTreeMap;
use std::fmt::Write;

use sharemark_protocol::messages as m;

use m::add_partitions_to_txn_request::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use m::add_share_acks_to_txn_request::{AddShareAcksToTxnRequest, AddShareAcksTopic};
use m::describe_producers_request::{DescribeProducersRequest, TopicRequest};
use m::describe_transactions_request::DescribeTransactionsRequest;
use m::end_txn_request::EndTxnRequest;
use m::init_producer_id_request::InitProducerIdRequest;
use m::list_transactions_request::ListTransactionsRequest;
use m::seed_txn_share_acknowledge_request::{self as seed, SeedTxnShareAcknowledgeRequest};
use m::txn_share_acknowledge_request::{self as stage, TxnShareAcknowledgeRequest};
use m::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest};

use super::arguments::{Arguments, CommandError, topic_partition};
use super::groups::group_and_member;
use super::names::error;
use super::session::{ANSWER_WAIT_MAX, Producer, Session};
use super::share::acknowledgements;
use super::txn_share_draft;

const TIMEOUT_MS: i32 = 60_000;

/// Waits until a real Kafka has written the markers of a transaction that is ending.
fn settle_transaction(session: &mut Session<'_>, transactional_id: &str) -> Result<(), CommandError> {
    if !session.is_kafka() {
        return Ok(());
    }
    let request =
        DescribeTransactionsRequest { transactional_ids: vec![session.names.wire(transactional_id)] };
    session.settle_until("the transaction is over", |session| {
        let answer = session.call(&request, 0)?;
        Ok(answer.transaction_states.iter().all(|state| !state.transaction_state.starts_with("Prepare")))
    })
}

/// `init-producer p1 [txn=x] [timeout=60000] [current] [id=p2] [epoch=N] [version=5]`
///
/// `current` sends the id and epoch that the producer has; `id` and `epoch` send others.
pub(super) fn init_producer(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let name = arguments.word("producer")?;
    let transactional_id = arguments.option("txn");
    let mut request = InitProducerIdRequest {
        transactional_id: transactional_id
            .as_ref()
            .map(|id| if id == "empty" { "".into() } else { session.names.wire(id) }),
        transaction_timeout_ms: arguments.number("timeout", TIMEOUT_MS)?,
        ..InitProducerIdRequest::default()
    };
    if arguments.flag("current") {
        let producer = session.producer(&name)?;
        (request.producer_id, request.producer_epoch) = (producer.id, producer.epoch);
    }
    if let Some(other) = arguments.option("id") {
        request.producer_id = session.producer(&other)?.id;
    }
    request.producer_epoch = arguments.number("epoch", request.producer_epoch)?;
    let answer = session.call(&request, arguments.number("version", 5)?)?;
    let mut output = error(answer.error_code);
    if answer.error_code == 0 {
        let producer = session.names.producer(answer.producer_id);
        let _ = write!(output, " producer={producer}/{}", answer.producer_epoch);
        let producer = Producer {
            transactional_id,
            id: answer.producer_id,
            epoch: answer.producer_epoch,
            sequences: BTreeMap::new(),
        };
        session.producers.insert(name, producer);
    } else if let Some(id) = &transactional_id {
        settle_transaction(session, id)?;
    }
    Ok(output + "\n")
}

/// `spend-epochs p1 p2 ... [timeout=60000] [to=32766]`: asks for each producer's id again until it has that epoch.
pub(super) fn spend_epochs(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let transaction_timeout_ms = arguments.number("timeout", TIMEOUT_MS)?;
    let last: i16 = arguments.number("to", i16::MAX - 1)?;
    let names = arguments.words_until("");
    loop {
        let mut asking = Vec::new();
        for name in &names {
            let producer = session.producer(name)?.clone();
            if producer.epoch < last {
                let request = InitProducerIdRequest {
                    transactional_id: Some(wire_id(session, &producer)),
                    transaction_timeout_ms,
                    ..InitProducerIdRequest::default()
                };
                session.send_on(name, &request, 5)?;
                asking.push(name);
            }
        }
        if asking.is_empty() {
            return Ok(String::new());
        }
        for name in asking {
            let received = session.receive_on::<InitProducerIdRequest>(name, ANSWER_WAIT_MAX)?;
            let (answer, _) = received.ok_or("no answer to InitProducerId")?;
            let producer = session.producer(name)?;
            producer.epoch += 1;
            producer.sequences.clear();
            if (answer.error_code, answer.producer_epoch) != (0, producer.epoch) {
                return Err(format!("instead of epoch {}: {answer:?}", producer.epoch));
            }
        }
    }
}

/// The transactional id, id and epoch that a request names: the producer's own unless told otherwise.
pub(super) fn identity(
    session: &mut Session<'_>,
    name: &str,
    arguments: &mut Arguments,
) -> Result<Producer, CommandError> {
    let mut producer = session.producer(name)?.clone();
    if let Some(txn) = arguments.option("txn") {
        producer.transactional_id = Some(txn);
    }
    if let Some(other) = arguments.option("id") {
        producer.id = session.producer(&other)?.id;
    }
    producer.epoch = arguments.number("epoch", producer.epoch)?;
    Ok(producer)
}

pub(super) fn wire_id(session: &Session<'_>, producer: &Producer) -> sharemark_protocol::StrBytes {
    session.names.wire(producer.transactional_id.as_deref().unwrap_or_default())
}

/// `add-partitions p1 t-0 ... [verify] [epoch=N] [txn=x] [id=p2] [version=3]`
pub(super) fn add_partitions(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let name = arguments.word("producer")?;
    let producer = identity(session, &name, arguments)?;
    let version: i16 = arguments.number("version", 3)?;
    let verify_only = arguments.flag("verify");
    let mut topics: Vec<AddPartitionsToTxnTopic> = Vec::new();
    for word in arguments.words_until("") {
        let (topic, partition) = topic_partition(&word)?;
        let name = session.names.wire(&topic);
        match topics.iter_mut().find(|topic| topic.name == name) {
            Some(topic) => topic.partitions.push(partition),
            None => topics.push(AddPartitionsToTxnTopic { name, partitions: vec![partition] }),
        }
    }
    let transactional_id = wire_id(session, &producer);
    let mut request = AddPartitionsToTxnRequest::default();
    if version < 4 {
        request.v3_and_below_transactional_id = transactional_id;
        request.v3_and_below_producer_id = producer.id;
        request.v3_and_below_producer_epoch = producer.epoch;
        request.v3_and_below_topics = topics;
    } else {
        request.transactions = vec![AddPartitionsToTxnTransaction {
            transactional_id,
            producer_id: producer.id,
            producer_epoch: producer.epoch,
            verify_only,
            topics,
        }];
    }
    let answer = session.call(&request, version)?;
    let mut lines = Vec::new();
    if answer.error_code != 0 {
        lines.push(format!("{}\n", error(answer.error_code)));
    }
    let results = answer
        .results_by_transaction
        .iter()
        .flat_map(|transaction| &transaction.topic_results)
        .chain(&answer.results_by_topic_v3_and_below);
    for topic in results {
        let name = session.names.shown(&topic.name);
        for partition in &topic.results_by_partition {
            lines.push(format!(
                "{name}-{} {}\n",
                partition.partition_index,
                error(partition.partition_error_code)
            ));
        }
    }
    lines.sort();
    Ok(lines.concat())
}

/// `end-txn p1 commit|abort [epoch=N] [txn=x] [id=p2] [at-once] [version=5]`
///
/// On Kafka the markers are waited for, unless `at-once` is said.
pub(super) fn end_txn(session: &mut Session<'_>, arguments: &mut Arguments) -> Result<String, CommandError> {
    let name = arguments.word("producer")?;
    let committed = match arguments.word("commit or abort")?.as_str() {
        "commit" => true,
        "abort" => false,
        other => return Err(format!("`{other}` is neither commit nor abort")),
    };
    let producer = identity(session, &name, arguments)?;
    let at_once = arguments.flag("at-once");
    let request = EndTxnRequest {
        transactional_id: wire_id(session, &producer),
        producer_id: producer.id,
        producer_epoch: producer.epoch,
        committed,
    };
    let answer = session.call(&request, arguments.number("version", 5)?)?;
    let mut output = error(answer.error_code);
    if answer.error_code == 0 && 0 <= answer.producer_id {
        let shown = session.names.producer(answer.producer_id);
        let _ = write!(output, " producer={shown}/{}", answer.producer_epoch);
        let known = session.producer(&name)?;
        if (known.id, known.epoch) != (answer.producer_id, answer.producer_epoch) {
            (known.id, known.epoch) = (answer.producer_id, answer.producer_epoch);
            known.sequences.clear();
        }
    }
    if let Some(id) = &producer.transactional_id
        && !at_once
    {
        settle_transaction(session, id)?;
    }
    Ok(output + "\n")
}

/// `write-markers p1 commit|abort t-0 ... [epoch=N] [coordinator-epoch=0] [transaction-version=2] [version=2]`
pub(super) fn write_markers(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let name = arguments.word("producer")?;
    let transaction_result = arguments.word("commit or abort")? == "commit";
    let producer = identity(session, &name, arguments)?;
    let mut topics = Vec::new();
    for word in arguments.words_until("") {
        let (topic, partition) = topic_partition(&word)?;
        topics.push(WritableTxnMarkerTopic {
            name: session.names.wire(&topic),
            partition_indexes: vec![partition],
        });
    }
    let request = WriteTxnMarkersRequest {
        markers: vec![WritableTxnMarker {
            producer_id: producer.id,
            producer_epoch: producer.epoch,
            transaction_result,
            topics,
            coordinator_epoch: arguments.number("coordinator-epoch", 0)?,
            transaction_version: arguments.number("transaction-version", 2)?,
        }],
    };
    let answer = session.call(&request, arguments.number("version", 2)?)?;
    let mut lines = Vec::new();
    for topic in answer.markers.iter().flat_map(|marker| &marker.topics) {
        let name = session.names.shown(&topic.name);
        for partition in &topic.partitions {
            lines.push(format!("{name}-{} {}\n", partition.partition_index, error(partition.error_code)));
        }
    }
    lines.sort();
    Ok(lines.concat())
}

/// `describe-txn x`
pub(super) fn describe_txn(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let id = arguments.word("transactional id")?;
    let request = DescribeTransactionsRequest { transactional_ids: vec![session.names.wire(&id)] };
    let answer = session.call(&request, 0)?;
    let state = answer.transaction_states.first().ok_or("no transaction in the answer")?;
    if state.error_code != 0 {
        return Ok(format!("{}\n", error(state.error_code)));
    }
    let producer = session.names.producer(state.producer_id);
    let mut output = format!(
        "NONE {} producer={producer}/{} timeout_ms={} started={}",
        &*state.transaction_state,
        state.producer_epoch,
        state.transaction_timeout_ms,
        if state.transaction_start_time_ms < 0 { "no" } else { "yes" }
    );
    let mut partitions: Vec<String> = state
        .topics
        .iter()
        .flat_map(|topic| {
            let name = session.names.shown(&topic.topic);
            topic.partitions.iter().map(move |partition| format!(" {name}-{partition}"))
        })
        .collect();
    partitions.sort();
    output += &partitions.concat();
    Ok(output + "\n")
}

/// `describe-producers t-0 ...`: those of this run's partitions.
pub(super) fn describe_producers(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let mut topics = Vec::new();
    for word in arguments.words_until("") {
        let (topic, partition) = topic_partition(&word)?;
        topics.push(TopicRequest { name: session.names.wire(&topic), partition_indexes: vec![partition] });
    }
    let answer = session.call(&DescribeProducersRequest { topics }, 0)?;
    let mut output = String::new();
    for topic in &answer.topics {
        let name = session.names.shown(&topic.name);
        for partition in &topic.partitions {
            let _ = writeln!(output, "{name}-{} {}", partition.partition_index, error(partition.error_code));
            let mut states: Vec<_> = partition.active_producers.iter().collect();
            states.sort_by_key(|state| state.producer_id);
            for state in states {
                let producer = session.names.producer(state.producer_id);
                let _ = writeln!(
                    output,
                    "  {producer}/{} last_sequence={} coordinator_epoch={} open_since={}",
                    state.producer_epoch,
                    state.last_sequence,
                    state.coordinator_epoch,
                    state.current_txn_start_offset
                );
            }
        }
    }
    Ok(output)
}

/// `list-txns [states=Ongoing] [producers=p1] [older-than=MS] [pattern=x.*] [version=2]`: those of this run.
pub(super) fn list_txns(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let mut producer_id_filters = Vec::new();
    for name in arguments.list("producers").unwrap_or_default() {
        producer_id_filters.push(session.producer(&name)?.id);
    }
    let request = ListTransactionsRequest {
        state_filters: arguments.list("states").unwrap_or_default().into_iter().map(Into::into).collect(),
        producer_id_filters,
        duration_filter: arguments.number("older-than", -1)?,
        transactional_id_pattern: arguments.option("pattern").map(Into::into),
    };
    let answer = session.call(&request, arguments.number("version", 2)?)?;
    let mut lines = Vec::new();
    for state in &answer.transaction_states {
        if session.names.is_ours(&state.transactional_id) {
            let id = session.names.shown(&state.transactional_id);
            lines.push(format!("{id} {}\n", &*state.transaction_state));
        }
    }
    lines.sort();
    let mut output = error(answer.error_code);
    for unknown in &answer.unknown_state_filters {
        let _ = write!(output, " unknown={}", &**unknown);
    }
    Ok(output + "\n" + &lines.concat())
}

/// `txn-share-acknowledge producer=p1 [group=g] [member=A] [member-epoch=N] [epoch=N] [txn=x] [id=p2]
/// [dialect=k95|k94|k93] ACKS`
pub(super) fn txn_share_acknowledge(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let name = arguments.option("producer").ok_or("producer= is missing")?;
    let (group, member) = group_and_member(arguments);
    let producer = identity(session, &name, arguments)?;
    let member_epoch = session.member(&group, &member).epoch;
    let dialect = arguments.text("dialect", "k95");
    let mut request = TxnShareAcknowledgeRequest {
        transactional_id: Some(wire_id(session, &producer)).filter(|id| &**id != "null"),
        group_id: session.names.wire(&group),
        producer_id: producer.id,
        producer_epoch: producer.epoch,
        member_id: member.into(),
        member_epoch: arguments.number("member-epoch", member_epoch)?,
        topics: Vec::new(),
    };
    for (word, ranges) in acknowledgements(&arguments.words_until(""))? {
        let (topic_id, _, partition_index) = session.partition(&word)?;
        let acknowledgement_batches = ranges
            .into_iter()
            .map(|(first_offset, last_offset, acknowledge_types)| stage::AcknowledgementBatch {
                first_offset,
                last_offset,
                acknowledge_types,
            })
            .collect();
        let partition = stage::AcknowledgePartition { partition_index, acknowledgement_batches };
        match request.topics.iter_mut().find(|topic| topic.topic_id == topic_id) {
            Some(topic) => topic.partitions.push(partition),
            None => request.topics.push(stage::AcknowledgeTopic { topic_id, partitions: vec![partition] }),
        }
    }
    let answer = txn_share_draft::call(session, &dialect, request)?;
    show_staged(
        session,
        answer.error_code,
        answer.responses.iter().map(|topic| {
            (topic.topic_id, topic.partitions.iter().map(|p| (p.partition_index, p.error_code)).collect())
        }),
    )
}

type TopicResults = (sharemark_protocol::TopicId, Vec<(i32, i16)>);

fn show_staged(
    session: &Session<'_>,
    error_code: i16,
    topics: impl Iterator<Item = TopicResults>,
) -> Result<String, CommandError> {
    let mut lines = Vec::new();
    for (id, partitions) in topics {
        let name = session.names.topic(id);
        lines.extend(partitions.iter().map(|(index, code)| format!("{name}-{index} {}\n", error(*code))));
    }
    lines.sort();
    if error_code != 0 || lines.is_empty() {
        lines.insert(0, format!("{} nothing\n", error(error_code)));
    }
    Ok(lines.concat())
}

/// `add-share-acks producer=p1 [group=g] t-0 ...`: the early text's registration.
pub(super) fn add_share_acks(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let name = arguments.option("producer").ok_or("producer= is missing")?;
    let group = arguments.text("group", "g");
    let producer = identity(session, &name, arguments)?;
    let mut topics = Vec::new();
    for word in arguments.words_until("") {
        let (topic, partition) = topic_partition(&word)?;
        topics
            .push(AddShareAcksTopic { topic_name: session.names.wire(&topic), partitions: vec![partition] });
    }
    let request = AddShareAcksToTxnRequest {
        transactional_id: wire_id(session, &producer),
        producer_id: producer.id,
        producer_epoch: producer.epoch,
        group_id: session.names.wire(&group),
        topics,
    };
    let answer = session.call(&request, 0)?;
    Ok(format!("{}\n", error(answer.error_code)))
}

/// `seed-txn-share-acknowledge txn=x [group=g] ACKS`: the early text's staging, one type for each range.
pub(super) fn seed_txn_share_acknowledge(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let txn = arguments.option("txn").ok_or("txn= is missing")?;
    let mut request = SeedTxnShareAcknowledgeRequest {
        group_id: session.names.wire(&arguments.text("group", "g")),
        transaction_id: session.names.wire(&txn),
        topics: Vec::new(),
    };
    for (word, ranges) in acknowledgements(&arguments.words_until(""))? {
        let (topic_id, _, partition) = session.partition(&word)?;
        let mut acknowledgement_batches = Vec::new();
        for (first_offset, last_offset, types) in ranges {
            let [acknowledge_type] = types[..] else {
                return Err("the early text has one type for each range".into());
            };
            acknowledgement_batches.push(seed::AcknowledgementBatch {
                first_offset,
                last_offset,
                acknowledge_type,
            });
        }
        let partitions = vec![seed::AcknowledgePartition { partition, acknowledgement_batches }];
        request.topics.push(seed::AcknowledgeTopic { topic_id, partitions });
    }
    let answer = session.call(&request, 0)?;
    show_staged(
        session,
        answer.error_code,
        answer.responses.iter().map(|topic| {
            (topic.topic_id, topic.partitions.iter().map(|p| (p.partition_index, p.error_code)).collect())
        }),
    )
}
