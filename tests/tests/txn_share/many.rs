//! Many transactions at once over the wire: each producer acknowledges one record and writes one, then commits or aborts.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread;

use sharemark::Server;
use sharemark_protocol::TopicId;
use sharemark_testkit::process::full;
use sharemark_testkit::sim::Random;
use sharemark_testkit::transcript::Session;

use super::with_server;

const PRODUCERS: usize = 120;
const PRODUCERS_FULL: usize = 1_000;
const ROUNDS: usize = 3;
const ROUNDS_FULL: usize = 6;
/// Connections that are busy at the same time, each with transactions of its own.
const CLIENTS: usize = 8;

/// Takes whatever there is.
const FETCH: &str = "share-fetch member=A max-records=5000 wait=0";

/// What the clients have in common.
struct Load<'a> {
    server: &'a Server,
    /// Nobody ends a transaction before all are open, nor goes on before all have ended.
    barrier: Barrier,
    topics: [(&'static str, TopicId); 2],
    member_epoch: i32,
    round_count: usize,
}

/// Runs the transactions of one client, whose producers process the records of these offsets until each has committed.
/// What goes wrong is told at the end, since others wait at the barrier.
fn client(load: &Load<'_>, index: usize, records: &[usize]) -> Result<(), String> {
    let mut random = Random::new(index as u64);
    let mut outcome = Ok(());
    with_server(load.server, |session| {
        for (name, id) in load.topics {
            session.names.learn_topic(id, name);
        }
        for record in records {
            outcome = outcome
                .clone()
                .and_then(|()| succeed(session, &format!("init-producer p{record} txn=x{record}")));
        }
        let mut left: BTreeSet<usize> = records.iter().copied().collect();
        for round in 0..load.round_count {
            for record in &left {
                outcome = outcome.clone().and_then(|()| begin(session, load.member_epoch, *record));
            }
            load.barrier.wait();
            for record in left.clone() {
                let commit = round + 1 == load.round_count || random.one_in(2);
                let end = if commit { "commit" } else { "abort" };
                outcome =
                    outcome.clone().and_then(|()| succeed(session, &format!("end-txn p{record} {end}")));
                if commit {
                    left.remove(&record);
                }
            }
            load.barrier.wait();
            // The main thread checks, and takes what was given back.
            load.barrier.wait();
        }
    });
    outcome
}

/// Begins a transaction that acknowledges one record and writes one.
fn begin(session: &mut Session<'_>, member_epoch: i32, record: usize) -> Result<(), String> {
    let member = format!("member=A member-epoch={member_epoch}");
    succeed(session, &format!("txn-share-acknowledge producer=p{record} {member} t-0 accept {record}"))?;
    succeed(session, &format!("produce out-0 values=v{record} producer=p{record}"))
}

fn succeed(session: &mut Session<'_>, command: &str) -> Result<(), String> {
    let told = session.run(command).map_err(|error| format!("{command}: {error}"))?;
    if told.contains("NONE") { Ok(()) } else { Err(format!("{command}: {told}")) }
}

#[test]
fn many_transactions_at_once_each_count_as_a_whole() {
    let (producer_count, round_count) =
        if full() { (PRODUCERS_FULL, ROUNDS_FULL) } else { (PRODUCERS, ROUNDS) };
    let limits = [
        ("group.share.delivery.count.limit", "10"),
        ("share.coordinator.state.topic.num.partitions", "3"),
        ("group.share.record.lock.duration.ms", "60000"),
    ];
    let builder = Server::builder()
        .config(|config| limits.iter().fold(config, |config, (name, value)| config.property(*name, *value)));
    let server = builder.start().unwrap();
    with_server(&server, |session| {
        let commands = [
            "create-topic t".to_owned(),
            "create-topic out".to_owned(),
            "group-config g share.auto.offset.reset=earliest".to_owned(),
            format!("produce t-0 count={producer_count}"),
            "join member=A topics=t".to_owned(),
            FETCH.to_owned(),
        ];
        for command in commands {
            succeed(session, &command).unwrap();
        }
        let load = Load {
            server: &server,
            barrier: Barrier::new(CLIENTS + 1),
            topics: ["t", "out"].map(|name| (name, session.names.topic_id(name).unwrap())),
            member_epoch: session.member("g", "A").epoch,
            round_count,
        };
        let records: Vec<usize> = (0..producer_count).collect();
        let load = &load;
        thread::scope(|scope| {
            let mut outcomes = Vec::new();
            for index in 0..CLIENTS {
                let own: Vec<usize> = records.iter().copied().filter(|it| it % CLIENTS == index).collect();
                outcomes.push(scope.spawn(move || client(load, index, &own)));
            }
            let mut checked = Ok(());
            for round in 0..round_count {
                load.barrier.wait(); // All are open.
                load.barrier.wait(); // All have ended.
                checked = checked.and_then(|()| check(session, producer_count, round));
                if round + 1 < round_count {
                    checked = checked.and_then(|()| succeed(session, FETCH));
                }
                load.barrier.wait();
            }
            let failures: Vec<_> = outcomes.into_iter().filter_map(|it| it.join().unwrap().err()).collect();
            assert_eq!((failures, checked), (Vec::new(), Ok(())));
        });
        let offsets = session.run("describe-share-offsets").unwrap();
        assert!(offsets.ends_with(" lag=0\n"), "every record is done with: {offsets}");
    });
    server.stop().unwrap();
}

/// Checks that exactly what was committed is acknowledged, and that nothing hangs.
fn check(session: &mut Session<'_>, producer_count: usize, round: usize) -> Result<(), String> {
    let read = session.run("read out-0 isolation=committed")?;
    let committed_count = read.lines().filter(|line| line.contains(" COMMIT")).count();
    let offsets = session.run("describe-share-offsets")?;
    let open = session.run("list-txns states=Ongoing,PrepareCommit,PrepareAbort")?;
    let lag = producer_count - committed_count;
    if offsets.ends_with(&format!(" lag={lag}\n")) && open == "NONE\n" {
        return Ok(());
    }
    Err(format!("round {round}, {committed_count} committed: {offsets}{open}"))
}
