//! Nodes that stop and start: who leads then, and what is left of transactions with acknowledgements.

use sharemark_protocol::messages as m;
use sharemark_protocol::messages::{RequestMessage, ResponseMessage};
use sharemark_protocol::{ErrorCode, NodeId, Producer, Timestamp};
use sharemark_share_coordinator::RecordState;

use super::internal_topics::stage_as;
use super::{BatchBuilder, Core, produce, produce_errors};
use crate::broker::{Command, Fault, FaultAction, FaultPoint, NodeProblem, NodeState};

impl Core {
    pub(super) fn of_three() -> Self {
        Self::with(|config| config.brokers(3))
    }

    pub(super) fn stop(&mut self, id: NodeId) {
        self.command(Command::StopNode(id));
    }

    pub(super) fn start(&mut self, id: NodeId) {
        self.command(Command::StartNode(id));
    }

    pub(super) fn epoch_of(&self, topic: &str, partition: i32) -> i32 {
        let leaders = self.broker.inspect_leaders();
        let mut found = leaders.iter().filter(|it| &*it.topic == topic && it.partition == partition);
        found.next().unwrap().leader_epoch.get()
    }

    pub(super) fn end_txn(&mut self, producer: Producer, committed: bool) -> i16 {
        self.find_coordinator(1, "x");
        let request = m::end_txn_request::EndTxnRequest {
            transactional_id: "x".into(),
            producer_id: producer.id.get(),
            producer_epoch: producer.epoch.get(),
            committed,
        };
        let ResponseMessage::EndTxn(answer) = self.call(5, RequestMessage::EndTxn(request)) else {
            panic!("an answer is of its request's kind")
        };
        answer.error_code
    }

    /// Fetches `t-0` at its leader, which loads the share partition, and returns the state of the first record.
    pub(super) fn state_of_first(&mut self) -> Option<RecordState> {
        self.node = self.leader_of("t", 0);
        self.connection += 1;
        let _answer = self.share_fetch(self.connection, 0);
        while self.broker.poll_output().is_some() {} // Others may be answered, too.
        let partition = self.broker.observe_share_partition("g", "t", 0)?;
        let mut runs = Vec::new();
        partition.records(Timestamp::from_ms(0), &mut runs);
        if runs.is_empty() && 0 < partition.start_offset().get() {
            return Some(RecordState::Acknowledged); // Done with, so that the window has passed it.
        }
        runs.first().map(|run| run.state)
    }
}

#[test]
fn another_node_leads_what_a_stopped_one_led() {
    let mut core = Core::of_three();
    let first = core.leader_of("t", 0);
    core.stop(first);
    let second = core.leader_of("t", 0);
    assert!(second != first);
    assert_eq!((core.epoch_of("t", 0), core.epoch_of("t", 1)), (1, 0), "only what it led has moved");
    core.node = second;
    assert_eq!(produce_errors(core.call(12, produce(vec![(0, BatchBuilder::new())], None))), [0]);
    core.start(first);
    assert_eq!(core.leader_of("t", 0), second, "it leads nothing again by itself");
    core.node = first;
    let elsewhere = core.call(12, produce(vec![(0, BatchBuilder::new())], None));
    assert_eq!(produce_errors(elsewhere), [ErrorCode::NotLeaderOrFollower.code()]);
    core.stop(second);
    assert_eq!(core.epoch_of("t", 0), 2);
}

#[test]
fn a_node_stops_and_starts_once() {
    let mut core = Core::with(|config| config.brokers(2).first_node_id(5));
    let now = core.clocks();
    let (five, six) = (NodeId::new(5), NodeId::new(6));
    assert_eq!(core.broker.stop_node(now, NodeId::new(0)), Err(NodeProblem::Unknown));
    assert_eq!(core.broker.start_node(now, five), Err(NodeProblem::Running));
    core.stop(five);
    assert_eq!(core.broker.stop_node(now, five), Err(NodeProblem::Stopped));
    assert_eq!(core.broker.inspect_nodes(), [(five, NodeState::Stopped), (six, NodeState::Running)]);
    let epoch = core.epoch_of("t", 0);
    core.stop(six);
    assert_eq!(core.epoch_of("t", 0), epoch, "nobody is there to lead it");
    core.start(five);
    assert_eq!((core.leader_of("t", 0), core.leader_of("u", 0)), (five, five), "whoever comes leads all");
    core.node = five;
    assert_eq!(produce_errors(core.call(12, produce(vec![(0, BatchBuilder::new())], None))), [0]);
}

#[test]
fn a_lone_node_comes_back_to_all_that_it_led() {
    let mut core = Core::with(|config| config);
    assert_eq!(core.join("g", "A"), 0);
    assert!(core.share_fetch(2, 0).is_none(), "it starts at the end, and waits");
    assert_eq!(produce_errors(core.call(12, produce(vec![(0, BatchBuilder::new())], None))), [0]);
    assert!(core.broker.poll_output().is_some(), "the fetch is answered");
    let producer = core.init_producer("x");
    assert_eq!(stage_as(&mut core, producer), 0);
    let (lone, epoch) = (core.node, core.epoch_of("t", 0));
    core.stop(lone);
    core.start(lone);
    assert_eq!((core.leader_of("t", 0), core.epoch_of("t", 0)), (lone, epoch + 1));
    assert_eq!(core.state_of_first(), Some(RecordState::TxPending), "the share coordinator is there");
    assert_eq!(core.end_txn(producer, true), 0, "the transaction coordinator is there");
    assert_eq!(core.state_of_first(), Some(RecordState::Acknowledged));
    assert_eq!(core.join("g", "B"), 0, "the group coordinator is there");
}

#[test]
fn a_request_to_a_stopped_node_closes_its_connection() {
    let mut core = Core::of_three();
    core.stop(NodeId::new(0));
    let output = core.send_on(1, 12, produce(vec![(0, BatchBuilder::new())], None));
    assert!(matches!(output, Some(super::Output::Close { .. })), "{output:?}");
    // A parked request dies with its node.
    core.node = core.leader_of("t", 0);
    core.find_coordinator(0, "g");
    core.node = core.leader_of("t", 0);
    assert!(core.share_fetch(2, 0).is_none() || core.broker.waiting_connections().is_empty());
    let node = core.node;
    core.stop(node);
    assert!(core.broker.waiting_connections().is_empty());
}

/// Which node of a transaction with acknowledgements goes away.
#[derive(Clone, Copy, Debug)]
enum Role {
    SourceLeader,
    ShareCoordinator,
    TransactionCoordinator,
    GroupCoordinator,
}

impl Role {
    const ALL: [Self; 4] =
        [Self::SourceLeader, Self::ShareCoordinator, Self::TransactionCoordinator, Self::GroupCoordinator];

    fn node(self, core: &mut Core) -> NodeId {
        match self {
            Self::SourceLeader => core.leader_of("t", 0),
            Self::ShareCoordinator => {
                let at = sharemark_protocol::TopicIdPartition { topic_id: core.topic_id("t"), partition: 0 };
                let key = crate::broker::share_partitions::share_key(&"g".into(), at);
                core.broker.share_state_leader(core.node, &key).unwrap().1
            }
            Self::TransactionCoordinator => {
                core.find_coordinator(1, "x");
                core.node
            }
            Self::GroupCoordinator => {
                core.find_coordinator(0, "g");
                core.node
            }
        }
    }
}

/// How a node goes away and comes back.
type Absence = (fn(&mut Core, NodeId), fn(&mut Core, NodeId));

const ABSENCES: [Absence; 2] = [(Core::stop, Core::start), (Core::isolate, Core::rejoin)];

/// Stages the acknowledgement of a record in a transaction on three nodes.
fn staged() -> (Core, Producer) {
    let mut core = Core::of_three();
    assert_eq!(core.join("g", "A"), 0);
    core.node = core.leader_of("t", 0);
    assert!(core.share_fetch(2, 0).is_none(), "it starts at the end, and waits");
    assert_eq!(produce_errors(core.call(12, produce(vec![(0, BatchBuilder::new())], None))), [0]);
    assert!(core.broker.poll_output().is_some(), "the fetch is answered");
    let producer = core.init_producer("x");
    core.node = core.leader_of("t", 0);
    assert_eq!(stage_as(&mut core, producer), 0);
    assert_eq!(core.state_of_first(), Some(RecordState::TxPending));
    (core, producer)
}

/// Checks what the end of the transaction has made of the record; after an abort a member may have it again.
fn check_end(core: &mut Core, committed: bool, what: &str) {
    let state = core.state_of_first();
    let is_right = match state {
        Some(RecordState::Acknowledged) => committed,
        Some(RecordState::Available | RecordState::Acquired) => !committed,
        Some(RecordState::Archiving | RecordState::Archived | RecordState::TxPending) | None => false,
    };
    assert!(is_right, "{what}, committed {committed}: {state:?}");
}

#[test]
fn staged_acknowledgements_survive_each_node_that_knows_of_them() {
    for role in Role::ALL {
        for (committed, (go, come)) in [true, false].iter().flat_map(|end| ABSENCES.map(|it| (*end, it))) {
            let (mut core, producer) = staged();
            let node = role.node(&mut core);
            go(&mut core, node);
            core.node = core.leader_of("t", 0);
            assert_eq!(core.state_of_first(), Some(RecordState::TxPending), "{role:?}: nothing is lost");
            assert_eq!(core.end_txn(producer, committed), 0, "{role:?}");
            come(&mut core, node);
            check_end(&mut core, committed, &format!("{role:?}"));
        }
    }
}

/// The end is decided and nobody is told when a node goes away; it is told once markers go out again.
#[test]
fn decided_ends_survive_each_node_that_has_to_hear_of_them() {
    for role in Role::ALL {
        for (committed, (go, come)) in [true, false].iter().flat_map(|end| ABSENCES.map(|it| (*end, it))) {
            let (mut core, producer) = staged();
            let node = role.node(&mut core);
            let hold = Fault::new(FaultPoint::TxnMarkers, FaultAction::Hold).for_ever();
            core.broker.install_fault(hold).unwrap();
            assert_eq!(core.end_txn(producer, committed), 0, "{role:?}");
            go(&mut core, node);
            assert_eq!(
                core.state_of_first(),
                Some(RecordState::TxPending),
                "{role:?}: nobody has heard of it"
            );
            core.command(Command::DeleteFaults);
            core.advance(1_000); // What met a node that is gone is sent again.
            check_end(&mut core, committed, &format!("{role:?} away"));
            come(&mut core, node);
            check_end(&mut core, committed, &format!("{role:?} back"));
        }
    }
}

#[test]
fn a_producer_that_waits_for_all_needs_enough_replicas() {
    let replicated = |config: crate::config::ConfigBuilder| {
        config.brokers(3).property("default.replication.factor", "3").property("min.insync.replicas", "2")
    };
    let mut core = Core::with(replicated);
    let produce_with = |core: &mut Core, acks: i16| {
        core.node = core.leader_of("t", 0);
        let mut message = produce(vec![(0, BatchBuilder::new())], None);
        if let RequestMessage::Produce(request) = &mut message {
            request.acks = acks;
        }
        produce_errors(core.call(12, message))[0]
    };
    assert_eq!(produce_with(&mut core, -1), 0);
    core.stop(NodeId::new(0));
    assert_eq!(produce_with(&mut core, -1), 0, "two are left");
    core.isolate(NodeId::new(1));
    assert_eq!(produce_with(&mut core, -1), ErrorCode::NotEnoughReplicas.code());
    assert_eq!(produce_with(&mut core, 1), 0, "who waits for the leader alone does not mind");
    core.rejoin(NodeId::new(1));
    assert_eq!(produce_with(&mut core, -1), 0);
}

#[test]
fn as_many_replicas_are_enough_as_there_are() {
    let mut core = Core::with(|config| config.brokers(2).property("min.insync.replicas", "2"));
    let leader = core.leader_of("t", 0);
    core.stop(leader);
    core.node = core.leader_of("t", 0);
    assert_eq!(produce_errors(core.call(12, produce(vec![(0, BatchBuilder::new())], None))), [0]);
}
