//! What a transcript cannot show: requests out of the ordinary, and when a parked one is answered.

mod admin;
mod fetching;
mod internal_topics;
mod isolation;
mod moves;
mod nodes;
mod producing;
mod retries;
mod stage_errors;

use sharemark_log::batch::BatchBuilder;
use sharemark_protocol::messages as m;
use sharemark_protocol::messages::{RequestMessage, ResponseMessage};
use sharemark_protocol::{NodeId, Producer, Timestamp, TopicId};

use super::{Broker, Command, ConnectionId, Input, ListenerId, Now, Origin, Output, Principal, Request};
use crate::config::{BrokerConfig, ConfigBuilder};

/// A broker whose two clocks are one.
struct Core {
    broker: Broker,
    now: Timestamp,
    /// The node that is asked.
    node: NodeId,
    /// The last connection of those that are used once.
    connection: u64,
}

impl Core {
    fn new() -> Self {
        Self::with(|config| config)
    }

    fn with(change: impl FnOnce(ConfigBuilder) -> ConfigBuilder) -> Self {
        let config = change(BrokerConfig::builder().topic("t:2").topic("u"));
        let now = Timestamp::from_ms(1_000_000);
        let broker = Broker::new(config.build(&mut Vec::new()).unwrap(), Now { clock: now, real: now });
        Self { broker, now, node: NodeId::new(0), connection: 1_000 }
    }

    fn clocks(&self) -> Now {
        Now { clock: self.now, real: self.now }
    }

    fn handle(&mut self, input: Input) {
        self.broker.handle(self.clocks(), input);
        self.check();
    }

    /// Does something that succeeds, and returns the number of a fault that it installed.
    fn command(&mut self, command: Command) -> Option<u64> {
        let outcome = self.broker.handle_command(self.clocks(), command).unwrap();
        self.check();
        outcome
    }

    /// Flushes what was written, and checks what must hold between two inputs.
    fn check(&mut self) {
        while let Some(flush) = self.broker.poll_flush() {
            self.broker.handle(self.clocks(), Input::Flushed(flush.number));
        }
        self.broker.check_invariants();
        self.broker.check_replay_equals_live(self.clocks());
    }

    fn advance(&mut self, ms: i64) {
        self.now = self.now.plus_ms(ms);
        self.handle(Input::Tick);
    }

    /// Sends a request on a connection of its own number, and returns what comes out at once.
    fn send_on(&mut self, connection: u64, api_version: i16, message: RequestMessage) -> Option<Output> {
        let origin = Origin {
            connection: ConnectionId(connection),
            node: self.node,
            listener: ListenerId(0),
            principal: Principal::anonymous(),
            client_id: None,
            client_host: "/127.0.0.1".into(),
            api_version,
        };
        let request = Request::prepare(origin, message, 1 << 20);
        self.handle(Input::Request(Box::new(request)));
        self.broker.poll_output()
    }

    fn call(&mut self, api_version: i16, message: RequestMessage) -> ResponseMessage {
        let Some(Output::Answer { message, .. }) = self.send_on(1, api_version, message) else {
            panic!("the request is answered at once")
        };
        *message
    }

    fn topic_id(&self, name: &str) -> TopicId {
        self.broker.cluster.topic_named(name).unwrap().id
    }

    /// Returns the node that leads a partition.
    fn leader_of(&self, topic: &str, partition: i32) -> NodeId {
        let at = sharemark_protocol::TopicIdPartition { topic_id: self.topic_id(topic), partition };
        self.broker.cluster.partition(at).unwrap().leader
    }

    /// Lets a member join a group, and returns the error code.
    fn join(&mut self, group: &str, member: &str) -> i16 {
        self.find_coordinator(0, group);
        let request = m::share_group_heartbeat_request::ShareGroupHeartbeatRequest {
            group_id: group.into(),
            member_id: member.into(),
            member_epoch: 0,
            subscribed_topic_names: Some(vec!["t".into()]),
            ..Default::default()
        };
        let ResponseMessage::ShareGroupHeartbeat(answer) =
            self.call(1, RequestMessage::ShareGroupHeartbeat(request))
        else {
            panic!("an answer is of its request's kind")
        };
        answer.error_code
    }

    /// Finds a coordinator, which is asked from now on.
    fn find_coordinator(&mut self, key_type: i8, key: &str) {
        self.node = NodeId::new(self.asked_for_coordinator(key_type, key).node_id);
    }

    /// Returns what is told of a coordinator.
    fn asked_for_coordinator(
        &mut self,
        key_type: i8,
        key: &str,
    ) -> m::find_coordinator_response::Coordinator {
        let request = m::find_coordinator_request::FindCoordinatorRequest {
            key_type,
            coordinator_keys: vec![key.into()],
            ..Default::default()
        };
        let answer = self.call(6, RequestMessage::FindCoordinator(request));
        let ResponseMessage::FindCoordinator(answer) = answer else {
            panic!("an answer is of its request's kind")
        };
        answer.coordinators[0].clone()
    }

    /// Gives a transactional id its producer.
    fn init_producer(&mut self, transactional_id: &str) -> Producer {
        self.find_coordinator(1, transactional_id);
        let request = m::init_producer_id_request::InitProducerIdRequest {
            transactional_id: Some(transactional_id.into()),
            transaction_timeout_ms: 60_000,
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        };
        let ResponseMessage::InitProducerId(answer) = self.call(5, RequestMessage::InitProducerId(request))
        else {
            panic!("an answer is of its request's kind")
        };
        if answer.error_code == sharemark_protocol::ErrorCode::ConcurrentTransactions.code() {
            return self.init_producer(transactional_id); // What was in the way is aborted now.
        }
        assert_eq!(answer.error_code, 0);
        Producer::from_wire(answer.producer_id, answer.producer_epoch).unwrap()
    }

    fn delete_topic(&mut self, name: &str) -> i16 {
        let state =
            m::delete_topics_request::DeleteTopicState { name: Some(name.into()), ..Default::default() };
        self.delete_topics(vec![state])[0].1
    }

    /// Deletes topics; returns each answer's name and error code, sorted.
    fn delete_topics(
        &mut self,
        topics: Vec<m::delete_topics_request::DeleteTopicState>,
    ) -> Vec<(String, i16)> {
        let request = m::delete_topics_request::DeleteTopicsRequest { topics, ..Default::default() };
        let ResponseMessage::DeleteTopics(answer) = self.call(6, RequestMessage::DeleteTopics(request))
        else {
            panic!("an answer is of its request's kind");
        };
        let mut told: Vec<(String, i16)> = answer
            .responses
            .iter()
            .map(|topic| (topic.name.as_deref().unwrap_or_default().to_owned(), topic.error_code))
            .collect();
        told.sort();
        told
    }

    /// Sends a share fetch of `t-0` that opens a session or goes on with it; returns the answer, if it is there.
    fn share_fetch(
        &mut self,
        connection: u64,
        epoch: i32,
    ) -> Option<m::share_fetch_response::ShareFetchResponse> {
        self.share_fetch_as("A", connection, epoch)
    }

    /// As [`Self::share_fetch`], by some member.
    fn share_fetch_as(
        &mut self,
        member: &str,
        connection: u64,
        epoch: i32,
    ) -> Option<m::share_fetch_response::ShareFetchResponse> {
        let topics = vec![m::share_fetch_request::FetchTopic {
            topic_id: self.topic_id("t"),
            partitions: vec![m::share_fetch_request::FetchPartition::default()],
        }];
        let request = m::share_fetch_request::ShareFetchRequest {
            group_id: Some("g".into()),
            member_id: Some(member.into()),
            share_session_epoch: epoch,
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: 1 << 20,
            max_records: 500,
            batch_size: 500,
            topics,
            ..Default::default()
        };
        let output = self.send_on(connection, 2, RequestMessage::ShareFetch(request))?;
        Some(as_share_fetch(output))
    }
}

fn as_share_fetch(output: Output) -> m::share_fetch_response::ShareFetchResponse {
    let Output::Answer { message, .. } = output else { panic!("a fetch is answered") };
    let ResponseMessage::ShareFetch(answer) = *message else { panic!("an answer is of its request's kind") };
    answer
}

/// Returns a Produce request of one batch for each of the partitions of `t`.
fn produce(batches: Vec<(i32, BatchBuilder)>, transactional_id: Option<&str>) -> RequestMessage {
    let partition_data = batches
        .into_iter()
        .map(|(index, mut builder)| {
            builder.push(Timestamp::from_ms(1_000_000), None, Some(&[7; 100]), &[]);
            let records = Some(builder.build().freeze().into());
            m::produce_request::PartitionProduceData { index, records }
        })
        .collect();
    let topic =
        m::produce_request::TopicProduceData { name: "t".into(), partition_data, ..Default::default() };
    RequestMessage::Produce(m::produce_request::ProduceRequest {
        transactional_id: transactional_id.map(Into::into),
        acks: -1,
        timeout_ms: 1_000,
        topic_data: vec![topic],
    })
}

fn produce_errors(answer: ResponseMessage) -> Vec<i16> {
    let ResponseMessage::Produce(answer) = answer else { panic!("an answer is of its request's kind") };
    answer.responses[0].partition_responses.iter().map(|partition| partition.error_code).collect()
}
