//! Transactional processors under load over TCP, while one node after the other stops or is cut off: every input comes
//! out exactly once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sharemark::Server;
use sharemark_protocol::TopicId;
use sharemark_testkit::process::full;
use sharemark_testkit::sim::Random;
use sharemark_testkit::transcript::{Kind, Names, Session, TcpTarget};

use super::with_server;

const SEED: u64 = 7;
const INPUTS: usize = 900;
const WORKERS: usize = 3;
const PAUSE: Duration = Duration::from_millis(80);
/// How long one lot of inputs may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the workers have in common.
struct Load<'a> {
    server: &'a Server,
    topics: [(&'static str, TopicId); 2],
    is_over: AtomicBool,
    aborts: AtomicUsize,
    /// Lives of workers that ended by an error.
    failures: AtomicUsize,
}

fn leader(server: &Server, topic: &str) -> i32 {
    let leaders = server.leaders().unwrap();
    leaders.iter().find(|it| &*it.topic == topic && it.partition == 0).unwrap().leader.get()
}

/// Runs a command at a node, and fails unless it succeeds.
fn at(session: &mut Session<'_>, node: i32, command: &str) -> Result<String, String> {
    let told = session.run(&format!("via n{node} {command}"))?;
    if told.contains("NONE") { Ok(told) } else { Err(format!("{command}: {told}")) }
}

/// Runs a command at whichever node coordinates what it is about.
fn anywhere(session: &mut Session<'_>, command: &str) -> Result<String, String> {
    let mut outcome = Err(String::new());
    for attempt in 0..9 {
        outcome = at(session, attempt % 3, command);
        let retried =
            |told: &String| ["COORDINATOR", "CONCURRENT", "no connection"].iter().any(|it| told.contains(it));
        if !outcome.as_ref().is_err_and(retried) {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    outcome
}

/// Works until the load is over, or until something fails, after which a new life begins with new connections.
fn live(
    load: &Load<'_>,
    worker: usize,
    session: &mut Session<'_>,
    random: &mut Random,
) -> Result<(), String> {
    for node in 0..3 {
        // One that is stopped is not there.
        let _ = session.run(&format!("open n{node} node={node}"));
    }
    for (name, id) in load.topics {
        session.names.learn_topic(id, name);
    }
    anywhere(session, &format!("join member=W{worker} topics=t"))?;
    anywhere(session, &format!("init-producer p txn=x{worker}"))?;
    let source = leader(load.server, "t");
    let mut epoch = " epoch=0 t-0";
    while !load.is_over.load(Ordering::Relaxed) {
        let fetch = format!("share-fetch member=W{worker} on=n{source}{epoch} mode=1 max-records=2 wait=50");
        let fetched = at(session, source, &fetch)?;
        epoch = "";
        let Some((_, acquired)) = fetched.split_once(" acquired ") else { continue };
        let acquired = acquired.split(" records ").next().unwrap_or_default();
        let (mut accepts, mut values) = (Vec::new(), Vec::new());
        for range in acquired.split_whitespace() {
            let (first, last) = range.split_once('x').unwrap().0.split_once('-').unwrap();
            accepts.push(format!("accept {first}-{last}"));
            let inputs = first.parse::<usize>().unwrap()..=last.parse().unwrap();
            values.extend(inputs.map(|input| format!("v{input}")));
        }
        let out = leader(load.server, "out");
        at(session, out, &format!("produce out-0 values={} producer=p", values.join(",")))?;
        for accept in accepts {
            let stage = format!("txn-share-acknowledge producer=p member=W{worker} t-0 {accept}");
            at(session, source, &stage)?;
        }
        let is_abort = random.one_in(8);
        load.aborts.fetch_add(usize::from(is_abort), Ordering::Relaxed);
        anywhere(session, if is_abort { "end-txn p abort" } else { "end-txn p commit" })?;
    }
    Ok(())
}

fn work(load: &Load<'_>, worker: usize) {
    let mut random = Random::new(worker as u64);
    for life in worker.. {
        let address = load.server.addresses().get(life % 3).map(|it| it.listeners[0].1);
        if let Some(address) = address {
            let mut target = TcpTarget::new(Kind::Sharemark, address);
            let mut session = Session::new(&mut target, Names::new(String::new(), 0));
            match live(load, worker, &mut session, &mut random) {
                Ok(()) => return,
                Err(error) => {
                    println!("worker {worker}: {error}");
                    load.failures.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        if load.is_over.load(Ordering::Relaxed) {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn done(server: &Server) -> usize {
    server.share_partition("g", "t", 0).map_or(0, |view| usize::try_from(view.start_offset).unwrap_or(0))
}

/// Stops and cuts off one node after the other, by turns, until nearly all is done; returns how often.
fn disturb(server: &Server, input_count: usize, deadline: Instant) -> usize {
    let mut random = Random::new(SEED);
    let mut count = 0;
    while done(server) < input_count * 9 / 10 && Instant::now() < deadline {
        let node = *random.pick(&[0, 1, 2]);
        let is_cut = count % 2 == 1;
        let goes = if is_cut { server.isolate_node(node) } else { server.stop_node(node) };
        goes.unwrap();
        thread::sleep(PAUSE);
        let comes = if is_cut { server.rejoin_node(node) } else { server.start_node(node) };
        comes.unwrap();
        thread::sleep(PAUSE);
        count += 1;
    }
    count
}

#[test]
fn every_input_comes_out_exactly_once_while_nodes_stop() {
    let input_count = if full() { 10 * INPUTS } else { INPUTS };
    println!("seed {SEED}");
    let limits = [
        ("group.share.delivery.count.limit", "10"),
        ("group.share.min.record.lock.duration.ms", "1000"),
        ("group.share.record.lock.duration.ms", "1000"),
    ];
    let builder = Server::builder().config(|config| {
        limits.iter().fold(config.brokers(3), |config, (name, value)| config.property(*name, *value))
    });
    let server = builder.start().unwrap();
    let mut topics = None;
    with_server(&server, |session| {
        for command in
            ["create-topic t", "create-topic out", "group-config g share.auto.offset.reset=earliest"]
        {
            let told = session.run(command).unwrap();
            assert!(told.contains("NONE"), "{told}");
        }
        for node in 0..3 {
            session.run(&format!("open n{node} node={node}")).unwrap();
        }
        at(session, leader(&server, "t"), &format!("produce t-0 count={input_count}")).unwrap();
        topics = Some(["t", "out"].map(|name| (name, session.names.topic_id(name).unwrap())));
    });
    let load = Load {
        server: &server,
        topics: topics.unwrap(),
        is_over: AtomicBool::new(false),
        aborts: AtomicUsize::new(0),
        failures: AtomicUsize::new(0),
    };
    let mut stop_count = 0;
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let load = &load;
            scope.spawn(move || work(load, worker));
        }
        let deadline = Instant::now() + PATIENCE * if full() { 10 } else { 1 };
        stop_count = disturb(&server, input_count, deadline);
        while done(&server) < input_count && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
        load.is_over.store(true, Ordering::Relaxed);
    });
    let (aborts, failures) = (load.aborts.into_inner(), load.failures.into_inner());
    println!("{stop_count} nodes stopped or cut off, {aborts} aborts, {failures} lives ended by an error");
    with_server(&server, |session| check(&server, session, load.topics, input_count));
    assert!(2 <= stop_count && 0 < aborts && 0 < failures, "all of it has happened");
    server.stop().unwrap();
}

/// Checks that every input is done with, and has come out once among what is committed.
fn check(
    server: &Server,
    session: &mut Session<'_>,
    topics: [(&'static str, TopicId); 2],
    input_count: usize,
) {
    for (name, id) in topics {
        session.names.learn_topic(id, name);
    }
    for node in 0..3 {
        session.run(&format!("open n{node} node={node}")).unwrap();
    }
    let offsets = anywhere(session, "describe-share-offsets").unwrap();
    assert!(offsets.ends_with(" lag=0\n"), "{offsets}");
    let read = format!("via n{} read out-0 isolation=committed", leader(server, "out"));
    let read = session.run(&read).unwrap();
    // A transaction's records are pending until the marker of their producer, which may have a later epoch.
    let mut pending: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut outputs = Vec::new();
    for words in read.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()) {
        let Some(producer) = words.get(1).and_then(|it| it.split_once('/')).map(|it| it.0) else { continue };
        let own = pending.entry(producer).or_default();
        match words.last() {
            Some(&"COMMIT") => outputs.append(own),
            Some(&"ABORT") => own.clear(),
            _ => own.extend(
                words.iter().filter_map(|it| it.strip_prefix('v')).flat_map(|it| it.parse::<usize>()),
            ),
        }
    }
    outputs.sort_unstable();
    assert_eq!(outputs, (0..input_count).collect::<Vec<_>>(), "each input once");
}
