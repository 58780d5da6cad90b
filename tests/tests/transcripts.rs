//! Runs `tests/transcripts/*.txt` on a real Kafka and on Sharemark.
//!
//! `UPDATE_TRANSCRIPTS=kafka` records what Kafka answers, `UPDATE_TRANSCRIPTS=sharemark` what Sharemark answers
//! where Kafka has no such request. `TRANSCRIPT=name` runs one file. `KAFKA_BOOTSTRAP=host:port` uses a Kafka
//! that runs already.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use sharemark::config::{BrokerConfig, Profile};
use sharemark_testkit::process::{KafkaPeer, Sharemark, replay, skip, workspace};
use sharemark_testkit::transcript::{
    CoreTarget, Kind, Names, Origin, Script, Session, Target, TcpTarget, difference, find_coordinators,
    is_sharemark_only, run, warm_up,
};

/// Files run at once.
const THREADS: usize = 4;
/// How often a file that waits on the real clock, or runs on Kafka, is tried: a busy machine may spoil a wait, and some of
/// Kafka's orders are those of Java's hash tables, so of fresh ids.
const TRIES: usize = 6;

fn files() -> Vec<PathBuf> {
    let only = std::env::var("TRANSCRIPT").ok();
    let mut files: Vec<PathBuf> = std::fs::read_dir(workspace().join("tests/transcripts"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .filter(|path| only.as_deref().is_none_or(|only| name(path) == only))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "there are transcripts");
    files
}

fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

fn read(path: &Path) -> Script {
    Script::parse(&std::fs::read_to_string(path).unwrap()).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

/// Whether Kafka has all requests of the transcript that are not in a block of their own.
fn kafka_has_it(script: &Script) -> bool {
    !script.commands().any(|command| is_sharemark_only(command) && !command.starts_with("state"))
}

fn names(suffix: String) -> Names {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    Names::new(suffix, i64::try_from(now).unwrap())
}

/// A suffix that keeps the names of a run apart from all others on the same broker.
fn fresh_suffix() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    format!(".{seconds:x}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Runs one file and returns what differs, after recording it when `record` says so.
fn check(path: &Path, target: &mut dyn Target, names: Names, record: Option<Origin>) -> Option<String> {
    let script = read(path);
    let mut session = Session::new(target, names);
    let outcome = match run(&script, &mut session) {
        Ok(outcome) => outcome,
        Err(error) => return Some(format!("{}: {error}", name(path))),
    };
    if let Some(origin) = record {
        let recorded = Script { origin: Some(origin), ..outcome };
        std::fs::write(path, recorded.to_string()).unwrap();
        return None;
    }
    difference(&script, &outcome).map(|text| format!("{}: {text}", name(path)))
}

/// What a Kafka is started with for transcripts, beside what all of them have.
type Start = (Vec<String>, Vec<String>);

/// The transcripts for Kafka, by what it is started with; those for a plain one come first.
fn files_for_kafka() -> BTreeMap<Start, Vec<PathBuf>> {
    let mut by_start = BTreeMap::new();
    for path in files() {
        let script = read(&path);
        if kafka_has_it(&script) {
            let owned = |words: Vec<&str>| words.into_iter().map(str::to_owned).collect();
            let start: Start = (owned(script.properties()), owned(script.features()));
            by_start.entry(start).or_insert_with(Vec::new).push(path);
        }
    }
    by_start
}

fn run_on_kafka(bootstrap: SocketAddr, files: &[PathBuf], record: bool) -> Vec<String> {
    let mut warm = TcpTarget::new(Kind::Kafka, bootstrap);
    let mut session = Session::new(&mut warm, names(fresh_suffix()));
    let has_groups = files.iter().any(|path| !read(path).features().contains(&"share.version=0"));
    if has_groups {
        warm_up(&mut session).unwrap();
    } else {
        find_coordinators(&mut session).unwrap();
    }
    println!("transcripts on Kafka: {}", files.len());
    several_at_once(files, |path| {
        several_times(TRIES, || {
            let mut target = TcpTarget::new(Kind::Kafka, bootstrap);
            check(path, &mut target, names(fresh_suffix()), record.then_some(Origin::Kafka))
        })
    })
}

/// Runs a body until it finds nothing wrong, and returns what it found the last time.
fn several_times(tries: usize, mut body: impl FnMut() -> Option<String>) -> Option<String> {
    for _ in 1..tries {
        println!("{}", body()?);
    }
    body()
}

/// Whether a transcript lets time go by, which a server does on the real clock.
fn waits(script: &Script) -> bool {
    script.commands().any(|command| command.starts_with("advance") || command.starts_with("await"))
}

/// Runs a body for each file, several at once since they mostly wait, and returns what failed.
fn several_at_once(files: &[PathBuf], body: impl Fn(&Path) -> Option<String> + Sync) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let failure = body(path);
                    failures.lock().unwrap().extend(failure);
                }
            });
        }
    });
    failures.into_inner().unwrap()
}

fn start_kafka(properties: &[String], features: &[String]) -> std::io::Result<KafkaPeer> {
    let properties: Vec<&str> = properties.iter().map(String::as_str).collect();
    let features: Vec<&str> = features.iter().map(String::as_str).collect();
    KafkaPeer::start_with_features(&properties, &features)
}

#[test]
fn kafka_answers_as_recorded() {
    let record = match std::env::var("UPDATE_TRANSCRIPTS").as_deref() {
        Ok("kafka") => true,
        Ok(_) => return,
        Err(_) => false,
    };
    let mut failures = Vec::new();
    for ((properties, features), files) in files_for_kafka() {
        let is_plain = properties.is_empty() && features.is_empty();
        if let (true, Ok(address)) = (is_plain, std::env::var("KAFKA_BOOTSTRAP")) {
            failures.extend(run_on_kafka(address.parse().unwrap(), &files, record));
            continue;
        }
        match start_kafka(&properties, &features) {
            Ok(peer) => failures.extend(run_on_kafka(peer.bootstrap(), &files, record)),
            Err(error) if std::env::var_os("CI").is_none() => {
                skip(&format!("transcripts on Kafka: {error}"));
                return;
            }
            Err(error) => panic!("no Kafka: {error}"),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// What the server is started with for a transcript: as the Kafka that it was recorded from, or as it says itself.
fn server_arguments(script: &Script) -> Vec<String> {
    if kafka_has_it(script) {
        let properties = workspace().join("tests/transcripts/broker.properties");
        let mut arguments: Vec<String> =
            ["--profile", "kafka-4.4", "--config-file", &properties.to_string_lossy()]
                .map(String::from)
                .into();
        for (option, values) in [("-c", script.properties()), ("--feature", script.features())] {
            arguments.extend(values.into_iter().flat_map(|value| [option.to_owned(), value.to_owned()]));
        }
        return arguments;
    }
    script.server_arguments().into_iter().map(String::from).collect()
}

/// The configuration that these arguments make, for a core without a command line.
fn core_config(arguments: &[String]) -> BrokerConfig {
    let mut config = BrokerConfig::builder().listen("127.0.0.1:9092");
    for pair in arguments.chunks(2) {
        let [option, value] = pair else { panic!("{pair:?} is an option with its value") };
        config = match option.as_str() {
            "-c" => {
                let (name, value) = value.split_once('=').unwrap();
                config.property(name, value)
            }
            "--brokers" => config.brokers(value.parse().unwrap()),
            "--config-file" => config.properties_file(&std::fs::read_to_string(value).unwrap()).unwrap(),
            "--feature" => config.feature(value),
            "--profile" => config.profile(Profile::parse(value).unwrap()),
            "--seed" => config.seed(value.parse().unwrap()),
            _ => panic!("the core takes no {option}"),
        };
    }
    config.build(&mut Vec::new()).unwrap()
}

/// The clock of the core moves only when a transcript says so, so that this takes next to no time.
#[test]
fn the_core_answers_as_recorded() {
    const START_MS: i64 = 1_900_000_000_000;
    if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
        return;
    }
    let mut failures = Vec::new();
    for path in files() {
        let script = read(&path);
        if script.not_built().is_some() {
            continue; // The run on the server prints it.
        }
        let mut target = CoreTarget::new(core_config(&server_arguments(&script)), START_MS);
        let names = || Names::new(String::new(), START_MS);
        find_coordinators(&mut Session::new(&mut target, names())).unwrap();
        failures.extend(check(&path, &mut target, names(), None));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_server_answers_as_recorded() {
    let update = std::env::var("UPDATE_TRANSCRIPTS").ok();
    if update.as_deref() == Some("kafka") {
        return;
    }
    let failures = several_at_once(&files(), |path| {
        let script = read(path);
        if let Some(missing) = script.not_built() {
            skip(&format!("transcript {} on Sharemark: not built: {missing}", name(path)));
            return None;
        }
        let is_long = script.commands().any(|command| command.starts_with("spend-epochs"));
        if is_long && std::env::var_os("SHAREMARK_FULL").is_none() {
            return None; // Minutes, for what the core does in seconds.
        }
        let own = !kafka_has_it(&script);
        let record = (own && update.as_deref() == Some("sharemark")).then_some(Origin::Sharemark);
        let arguments = server_arguments(&script);
        let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let file = format!("{}-{}.journal", name(path), std::process::id());
        let journal = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
        arguments.extend(["--journal", journal.to_str().unwrap()]);
        several_times(if waits(&script) { TRIES } else { 1 }, || {
            let server = Sharemark::start_on_free_port(&arguments).unwrap();
            let mut target = TcpTarget::new(Kind::Sharemark, server.bootstrap());
            find_coordinators(&mut Session::new(&mut target, names(String::new()))).unwrap();
            let differs = check(path, &mut target, names(String::new()), record);
            differs.or_else(|| replay_differs(path, server, &journal))
        })
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Stops the server of a transcript and replays its journal; returns what the core does not do again.
fn replay_differs(path: &Path, server: Sharemark, journal: &Path) -> Option<String> {
    server.stop().unwrap();
    let (code, printed) = replay(journal).unwrap();
    std::fs::remove_file(journal).unwrap();
    (code != Some(0)).then(|| format!("{}: the replay of its journal: {printed}", name(path)))
}

/// What Kafka can say must have been said by Kafka.
#[test]
fn transcripts_are_recorded_from_kafka_where_it_has_the_requests() {
    if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
        return;
    }
    for path in files() {
        let script = read(&path);
        let wanted = if kafka_has_it(&script) { Origin::Kafka } else { Origin::Sharemark };
        assert_eq!(script.origin, Some(wanted), "{path:?} was recorded from the right broker");
        assert_eq!(
            script.to_string(),
            std::fs::read_to_string(&path).unwrap(),
            "{path:?} is in its normal form"
        );
    }
}
