//! The command line.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};
use tracing::warn;
use tracing_subscriber::EnvFilter;

use super::demo::{self, DemoError};
use super::journal::replay;
use super::machine;
use super::server::{Server, ServerBuilder, ServerError};
#[cfg(feature = "plants")]
use crate::config::Plant;
use crate::config::{BrokerConfig, ConfigBuilder, Profile};

/// The exit code after a wrong option or property.
const EXIT_USAGE: u8 = 2;

/// The exit code after a failure of the core, as after a panic of the process.
const EXIT_CORE: u8 = 101;

const AFTER_HELP: &str = "\
When it listens it prints `ready bootstrap=HOST:PORT,... pid=N startup_ms=N` on standard output, and serves until
Ctrl-C or SIGTERM. Warnings go to standard error; RUST_LOG=debug also tells why a connection was closed.
Data is kept in memory and gone at the end.

Exit codes: 0 after a signal, 1 for an address or a file that cannot be used, a demo that found a fault or a replay that
differs, 2 for a wrong option or property or a file that is no journal, 101 for a bug in the core.";

/// A broker for testing Kafka queues and transactions.
#[derive(Debug, Parser)]
#[command(name = "sharemark", version, args_conflicts_with_subcommands = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeOptions,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a broker (what happens without a command, too)
    Serve(Box<ServeOptions>),
    /// Run a journal on a core of its own, and print where that first does something else
    Replay {
        /// The journal
        file: PathBuf,
    },
    /// Run an exactly-once consumer and producer against a broker of its own, explain what happened, and exit
    Demo(DemoOptions),
}

#[derive(Args, Debug)]
struct DemoOptions {
    /// Build a bug into the broker, which the demo must find
    #[cfg(feature = "plants")]
    #[arg(long, value_enum)]
    plant: Option<PlantName>,
}

#[cfg(feature = "plants")]
#[derive(Clone, Copy, Debug, ValueEnum)]
enum PlantName {
    /// An abort makes staged acknowledgements final, as a commit does
    AbortAcknowledges,
}

#[derive(Args, Debug)]
struct ServeOptions {
    /// First node's address; port 0 picks a free port for each node [default: 127.0.0.1:9092]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// First node's address as clients are told it [default: the listen address, 127.0.0.1 for 0.0.0.0]
    #[arg(long, value_name = "HOST[:PORT]")]
    advertise: Option<String>,
    /// Finalize a feature at a level: transaction.version, share.version, group.version, ... (may be repeated)
    #[arg(long, value_name = "NAME=LEVEL")]
    feature: Vec<String>,
    /// Nodes of the cluster, 1 to 64, on successive ports [default: 1]
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true)]
    brokers: u16,
    /// Id of the first node [default: node.id, or 0]
    #[arg(long, value_name = "N")]
    first_node_id: Option<i32>,
    /// Create a topic at the start, with properties of it if wanted (may be repeated)
    #[arg(long, value_name = "NAME[:PARTITIONS[:key=value,...]]")]
    topic: Vec<String>,
    /// Set a Kafka broker property; one that is not known is warned about and ignored (may be repeated). The rack of
    /// one node is node.ID.broker.rack; share.txn.dialect lists the forms of transactional acknowledgements that are
    /// served, off or any of k95, k94, k93, seed, and listener.name.LISTENER.share.txn.dialect those of one listener
    #[arg(short, long, value_name = "KEY=VALUE")]
    config: Vec<String>,
    /// Read a Kafka server.properties; --config and the other options win over it
    #[arg(long, value_name = "FILE")]
    config_file: Option<PathBuf>,
    /// Which Kafka to stand for
    #[arg(long, value_enum, default_value_t = ProfileName::Latest)]
    profile: ProfileName,
    /// Keep everything in this folder, with RocksDB (not built yet)
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// When to wait for the disk, with --data-dir [default: flush] (not built yet)
    #[arg(long, value_enum)]
    sync: Option<Sync>,
    /// Open an HTTP control endpoint: metrics, clock and inner state; port 0 picks a free one
    #[arg(long, value_name = "HOST:PORT")]
    control: Option<String>,
    /// Seed all randomness, such as ids: a number of 64 bits [default: another one at each start]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write all that enters the core, and what it answers, into this file; `sharemark replay` runs it again
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Most memory for records: bytes, or with KiB, MiB or GiB [default: a quarter of the machine's]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory_limit: Option<u64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProfileName {
    /// All that is built, with the quick defaults of a test broker
    #[value(name = "latest")]
    Latest,
    /// Kafka 4.4's own defaults and bounds, and nothing experimental
    #[value(name = "kafka-4.4")]
    Kafka44,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sync {
    /// At each flush
    Flush,
    /// Never
    Never,
}

/// Why the program ends with an error, and the exit code that says so.
#[derive(Debug)]
struct Failure {
    text: String,
    exit_code: u8,
}

impl Failure {
    fn usage(text: impl fmt::Display) -> Self {
        Self { text: text.to_string(), exit_code: EXIT_USAGE }
    }
}

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        let exit_code = match &error {
            // An address that is none is a wrong option.
            ServerError::Listen { error, .. } if error.kind() == io::ErrorKind::InvalidInput => EXIT_USAGE,
            ServerError::Config(_) => EXIT_USAGE,
            ServerError::Core(_) => EXIT_CORE,
            ServerError::Listen { .. }
            | ServerError::Journal { .. }
            | ServerError::System(_)
            | ServerError::Storage(_) => 1,
        };
        Self { text: error.to_string(), exit_code }
    }
}

/// Runs the program with the arguments `args`, of which the first is its name; returns its exit code.
pub fn run_cli(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let start = Start::now();
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => return report_usage(&error),
    };
    let outcome = match cli.command {
        None => serve(cli.serve, &start),
        Some(Command::Serve(options)) => serve(*options, &start),
        Some(Command::Replay { file }) => run_replay(&file),
        Some(Command::Demo(options)) => run_demo(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            print_error(&failure.text);
            ExitCode::from(failure.exit_code)
        }
    }
}

/// Prints what is wrong with the options on one line, or the help that was asked for.
fn report_usage(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return if error.print().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let text = error.to_string();
    let is_advice = |line: &&str| line.starts_with("Usage:") || line.starts_with("For more information");
    let lines = text.lines().map(str::trim).take_while(|line| !is_advice(line));
    let line = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    print_error(line.strip_prefix("error: ").unwrap_or(&line));
    ExitCode::from(EXIT_USAGE)
}

fn print_error(text: &str) {
    // Nothing is left to tell when even this fails.
    drop(writeln!(io::stderr(), "sharemark: {text}"));
}

/// When the process began, as nearly as it can tell.
struct Start {
    main: Instant,
    before_main: std::time::Duration,
}

impl Start {
    fn now() -> Self {
        Self { main: Instant::now(), before_main: machine::time_on_processor() }
    }

    fn elapsed_ms(&self) -> u128 {
        (self.before_main + self.main.elapsed()).as_millis()
    }
}

fn serve(options: ServeOptions, start: &Start) -> Result<(), Failure> {
    start_logging();
    let (control, journal) = (options.control.clone(), options.journal.clone());
    let server = Server::start_with(configure(options)?, control.as_deref(), journal.as_deref())?;
    let signals = server.inside(signals).map_err(ServerError::System)?;
    let control = server.control_address().map_or_else(String::new, |at| format!(" control={at}"));
    let ready = format!(
        "ready bootstrap={}{control} pid={} startup_ms={}\n",
        server.bootstrap(),
        std::process::id(),
        start.elapsed_ms()
    );
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(ready.as_bytes()).and_then(|()| out.flush()) {
        // Nobody reads: serve on.
        warn!(%error, "the ready line cannot be written");
    }
    drop(out);
    server.run_until(signals)?;
    Ok(())
}

/// Returns what is ready once somebody wants the program to end; from this call on, not when first waited for.
fn signals() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

fn run_demo(options: &DemoOptions) -> Result<(), Failure> {
    start_logging();
    match demo::run(planted(Server::builder(), options), &mut io::stdout().lock()) {
        Ok(None) => Ok(()),
        Ok(Some(fault)) => Err(Failure { text: format!("demo: {fault}"), exit_code: 1 }),
        Err(DemoError::Server(error)) => Err(error.into()),
        Err(error) => Err(Failure { text: format!("demo: {error}"), exit_code: 1 }),
    }
}

fn run_replay(path: &Path) -> Result<(), Failure> {
    let wrong = |problem: String| Failure::usage(format!("replay {}: {problem}", path.display()));
    let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let verdict = replay(BufReader::new(file)).map_err(|error| wrong(error.to_string()))?;
    let printed = writeln!(io::stdout(), "{verdict}");
    if !verdict.is_same() {
        return Err(Failure { text: format!("replay {}: it is not the same", path.display()), exit_code: 1 });
    }
    printed.map_err(|error| Failure { text: format!("replay: {error}"), exit_code: 1 })
}

#[cfg(feature = "plants")]
fn planted(server: ServerBuilder, options: &DemoOptions) -> ServerBuilder {
    let plant = options.plant.map(|plant| match plant {
        PlantName::AbortAcknowledges => Plant::AbortAcknowledges,
    });
    server.config(|config| config.plant(plant))
}

#[cfg(not(feature = "plants"))]
fn planted(server: ServerBuilder, _options: &DemoOptions) -> ServerBuilder {
    server
}

fn start_logging() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    // An error means that an embedding program has set up its own.
    drop(tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).try_init());
}

fn configure(options: ServeOptions) -> Result<BrokerConfig, Failure> {
    if options.data_dir.is_some() {
        return Err(Failure::usage("--data-dir: not built yet"));
    }
    if options.sync.is_some() {
        return Err(Failure::usage(
            "--sync: it says something with --data-dir alone, which is not built yet",
        ));
    }
    let mut unknown = Vec::new();
    let builder = builder(options)?;
    let config = builder.build(&mut unknown).map_err(Failure::usage)?;
    for name in unknown {
        warn!(name, "no property is called that");
    }
    Ok(config)
}

fn builder(options: ServeOptions) -> Result<ConfigBuilder, Failure> {
    let profile = match options.profile {
        ProfileName::Latest => Profile::Latest,
        ProfileName::Kafka44 => Profile::Kafka44,
    };
    let mut builder = BrokerConfig::builder()
        .profile(profile)
        .brokers(options.brokers)
        .seed(options.seed.unwrap_or_else(machine::fresh_seed))
        .memory_limit_bytes(options.memory_limit.unwrap_or_else(machine::quarter_of_memory));
    if let Some(path) = options.config_file {
        let wrong = |problem: String| Failure::usage(format!("--config-file {}: {problem}", path.display()));
        let text = fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
        builder = builder.properties_file(&text).map_err(|error| wrong(error.to_string()))?;
    }
    for pair in options.config {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(Failure::usage(format!("--config: {pair:?} is not of the form KEY=VALUE")));
        };
        builder = builder.property(name.trim(), value);
    }
    if let Some(address) = options.listen {
        builder = builder.listen(address);
    }
    if let Some(address) = options.advertise {
        builder = builder.advertise(address);
    }
    if let Some(id) = options.first_node_id {
        builder = builder.first_node_id(id);
    }
    builder = options.topic.into_iter().fold(builder, ConfigBuilder::topic);
    Ok(options.feature.into_iter().fold(builder, ConfigBuilder::feature))
}

/// Reads a size such as `1048576`, `512MiB` or `2GiB`.
fn parse_size(text: &str) -> Result<u64, String> {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10), ("G", 30), ("M", 20), ("K", 10), ("B", 0)];
    let unit = units.iter().find(|(unit, _)| text.ends_with(unit));
    let (digits, shift) = unit.map_or((text, 0), |(unit, shift)| (text.trim_end_matches(unit), *shift));
    let number: u64 = digits.trim().parse().map_err(|_| "it is no size".to_owned())?;
    number.checked_mul(1 << shift).filter(|size| 0 < *size).ok_or_else(|| "it is no size".to_owned())
}

#[cfg(test)]
mod tests;
