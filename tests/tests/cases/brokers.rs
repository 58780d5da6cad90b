//! The brokers that a case is asked of, and what most cases do first.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use sharemark_protocol::messages as m;
use sharemark_protocol::{Records, TopicId};
use sharemark_testkit::client::Connection;
use sharemark_testkit::process::{KafkaPeer, Sharemark, workspace};
use sharemark_testkit::transcript::{Kind, Names, Session, TcpTarget, find_coordinators, warm_up};

use m::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use m::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use m::fetch_response::PartitionData;
use m::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use m::produce_response::PartitionProduceResponse;

/// A broker under test: Sharemark with the settings of the transcripts, or a real Kafka with the same.
pub(crate) struct Broker {
    address: SocketAddr,
    kind: Kind,
    suffix: String,
    server: Option<Sharemark>,
    /// The topics that were made here, which commands of transcripts have to know.
    topics: RefCell<Vec<Topic>>,
}

/// A topic as a client knows it.
#[derive(Clone)]
pub(crate) struct Topic {
    pub(crate) name: String,
    pub(crate) id: TopicId,
}

/// How often a case is tried on Kafka, which may be slow on a busy machine but is not wrong three times.
const KAFKA_TRIES: usize = 3;

/// Runs a case on a Sharemark of its own, and then on a real Kafka if there is one.
///
/// A case asks once and compares. What Kafka does behind its answers, such as loading the state of a share group, may
/// come after a claim was checked; so it gets more than one try, with names of its own each time. Sharemark gets one.
pub(crate) fn on_both(case: impl Fn(&Broker)) {
    case(&Broker::sharemark(&[]));
    let Some(address) = kafka() else { return };
    for left in (0..KAFKA_TRIES).rev() {
        println!("now on Kafka"); // Seen when the case fails.
        let broker = Broker {
            address,
            kind: Kind::Kafka,
            suffix: fresh_suffix(),
            server: None,
            topics: RefCell::default(),
        };
        match catch_unwind(AssertUnwindSafe(|| case(&broker))) {
            Ok(()) => return,
            Err(panic) if left == 0 => resume_unwind(panic),
            Err(_) => {}
        }
    }
}

/// Runs a case on a Sharemark and then on a real Kafka that nobody else uses, both with more broker properties: for
/// cases that change what the whole cluster shares.
pub(crate) fn on_both_alone(properties: &[&str], case: impl Fn(&Broker)) {
    let arguments: Vec<&str> = properties.iter().flat_map(|property| ["-c", property]).collect();
    case(&Broker::sharemark(&arguments));
    match KafkaPeer::start(properties) {
        Ok(peer) => {
            println!("now on Kafka"); // Seen when the case fails.
            let address = peer.bootstrap();
            let mut target = TcpTarget::new(Kind::Kafka, address);
            warm_up(&mut Session::new(&mut target, Names::new(fresh_suffix(), now_ms()))).unwrap();
            case(&Broker {
                address,
                kind: Kind::Kafka,
                suffix: String::new(),
                server: None,
                topics: RefCell::default(),
            });
        }
        Err(error) if std::env::var_os("CI").is_none() => println!("skipped on Kafka: {error}"),
        Err(error) => panic!("no Kafka: {error}"),
    }
}

impl Broker {
    /// Starts a Sharemark as the transcripts do, with more arguments.
    pub(crate) fn sharemark(more: &[&str]) -> Self {
        let properties = workspace().join("tests/transcripts/broker.properties");
        let properties = properties.to_string_lossy();
        let mut arguments = vec!["--profile", "kafka-4.4", "--config-file", &*properties];
        arguments.extend(more);
        Self::of(Sharemark::start_on_free_port(&arguments).unwrap())
    }

    /// Starts a Sharemark with its own defaults.
    pub(crate) fn with_defaults(arguments: &[&str]) -> Self {
        Self::of(Sharemark::start_on_free_port(arguments).unwrap())
    }

    fn of(server: Sharemark) -> Self {
        let address = server.bootstrap();
        let mut target = TcpTarget::new(Kind::Sharemark, address);
        find_coordinators(&mut Session::new(&mut target, Names::new(String::new(), now_ms()))).unwrap();
        Self {
            address,
            kind: Kind::Sharemark,
            suffix: String::new(),
            server: Some(server),
            topics: RefCell::default(),
        }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn is_kafka(&self) -> bool {
        self.kind == Kind::Kafka
    }

    /// Returns the process id of a Sharemark.
    pub(crate) fn pid(&self) -> u32 {
        self.server.as_ref().unwrap().pid()
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open_and_negotiate(self.address).unwrap()
    }

    /// Connects and sends nothing.
    pub(crate) fn connect_silently(&self) -> Connection {
        Connection::open(self.address).unwrap()
    }

    /// Returns a name of this run alone.
    pub(crate) fn name(&self, name: &str) -> String {
        format!("{name}{}", self.suffix)
    }

    /// Runs commands of transcripts, in which names are as [`Self::name`] makes them.
    pub(crate) fn run(&self, commands: &[&str]) -> String {
        self.with_session(|run| commands.iter().map(|command| run(command)).collect())
    }

    /// Hands out what runs commands of transcripts, one after the other.
    pub(crate) fn with_session<T>(&self, body: impl FnOnce(&mut dyn FnMut(&str) -> String) -> T) -> T {
        let mut target = TcpTarget::new(self.kind, self.address);
        let mut session = Session::new(&mut target, Names::new(self.suffix.clone(), now_ms()));
        for topic in self.topics.borrow().iter() {
            session.names.learn_topic(topic.id, &topic.name);
        }
        body(&mut |command| session.run(command).unwrap_or_else(|error| panic!("{command}: {error}")))
    }

    /// Creates a topic that can be used at once.
    pub(crate) fn topic(&self, name: &str, partitions: i32) -> Topic {
        let name = self.name(name);
        let topic = CreatableTopic {
            name: name.as_str().into(),
            num_partitions: partitions,
            replication_factor: 1,
            ..CreatableTopic::default()
        };
        let request =
            CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..CreateTopicsRequest::default() };
        let answer = self.connect().call(&request, 7).unwrap();
        assert_eq!(answer.topics[0].error_code, 0, "{answer:?}");
        let topic = Topic { name, id: answer.topics[0].topic_id };
        self.topics.borrow_mut().push(topic.clone());
        self.settle(|| (0..partitions).all(|index| self.fetch(&topic, index, 0).error_code == 0));
        topic
    }

    /// Waits until `done` says yes; of Sharemark the first answer must be yes.
    pub(crate) fn settle(&self, done: impl Fn() -> bool) {
        for _ in 0..400 {
            if done() {
                return;
            }
            assert!(self.is_kafka(), "what Sharemark has answered is so");
            std::thread::sleep(std::time::Duration::from_millis(25));
        }
        panic!("never so");
    }

    /// Produces one piece of records and returns what became of it.
    pub(crate) fn produce(&self, topic: &Topic, partition: i32, records: Bytes) -> PartitionProduceResponse {
        self.produce_as(topic, partition, records, 13)
    }

    /// Produces in a version.
    pub(crate) fn produce_as(
        &self,
        topic: &Topic,
        partition: i32,
        records: Bytes,
        version: i16,
    ) -> PartitionProduceResponse {
        let request = produce_request(vec![(topic, partition, records)]);
        let mut answer = self.connect().call(&request, version).unwrap();
        answer.responses.remove(0).partition_responses.remove(0)
    }

    /// Fetches what there is from an offset of one partition.
    pub(crate) fn fetch(&self, topic: &Topic, partition: i32, offset: i64) -> PartitionData {
        self.fetch_as(topic, partition, offset, 18)
    }

    /// Fetches in a version.
    pub(crate) fn fetch_as(&self, topic: &Topic, partition: i32, offset: i64, version: i16) -> PartitionData {
        let request = fetch_request(&[(topic, partition, offset)]);
        let mut answer = self.connect().call(&request, version).unwrap();
        assert_eq!(answer.error_code, 0);
        answer.responses.remove(0).partitions.remove(0)
    }
}

/// Returns a request for these pieces of records, each for one partition.
pub(crate) fn produce_request(pieces: Vec<(&Topic, i32, Bytes)>) -> ProduceRequest {
    let topic_data = pieces
        .into_iter()
        .map(|(topic, index, records)| TopicProduceData {
            name: topic.name.as_str().into(),
            topic_id: topic.id,
            partition_data: vec![PartitionProduceData { index, records: Some(Records::from(records)) }],
        })
        .collect();
    ProduceRequest { acks: -1, timeout_ms: 10_000, topic_data, ..ProduceRequest::default() }
}

/// Returns a fetch that does not wait, of partitions with their offsets.
pub(crate) fn fetch_request(partitions: &[(&Topic, i32, i64)]) -> FetchRequest {
    let topics = partitions
        .iter()
        .map(|(topic, partition, fetch_offset)| FetchTopic {
            topic: topic.name.as_str().into(),
            topic_id: topic.id,
            partitions: vec![FetchPartition {
                partition: *partition,
                current_leader_epoch: -1,
                fetch_offset: *fetch_offset,
                partition_max_bytes: 1 << 20,
                ..FetchPartition::default()
            }],
        })
        .collect();
    FetchRequest {
        replica_id: -1,
        min_bytes: 1,
        max_bytes: 50 << 20,
        session_epoch: -1,
        topics,
        ..FetchRequest::default()
    }
}

/// Returns the time of day, which retention keeps.
pub(crate) fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

fn fresh_suffix() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!(".c{:x}-{}", now_ms(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Returns the Kafka that all cases share, or `None` where there is none, which CI does not accept.
fn kafka() -> Option<SocketAddr> {
    static KAFKA: OnceLock<Option<(SocketAddr, Option<KafkaPeer>)>> = OnceLock::new();
    let found = KAFKA.get_or_init(|| {
        let found = match std::env::var("KAFKA_BOOTSTRAP") {
            Ok(address) => (address.parse().unwrap(), None),
            Err(_) => match KafkaPeer::start(&[]) {
                Ok(peer) => (peer.bootstrap(), Some(peer)),
                Err(error) if std::env::var_os("CI").is_none() => {
                    println!("skipped on Kafka: there is none here: {error}");
                    return None;
                }
                Err(error) => panic!("no Kafka: {error}"),
            },
        };
        let mut target = TcpTarget::new(Kind::Kafka, found.0);
        warm_up(&mut Session::new(&mut target, Names::new(fresh_suffix(), now_ms()))).unwrap();
        Some(found)
    });
    found.as_ref().map(|(address, _)| *address)
}
