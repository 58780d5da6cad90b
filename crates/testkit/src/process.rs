//! Programs that the tests start: the `sharemark` binary and a real Kafka broker.
//!
//! Both print one line that starts with `ready` and names their address; both are ended when the value that
//! stands for them is dropped, and nothing else is ever ended.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

const SHAREMARK_START_MAX: Duration = Duration::from_secs(20);
const KAFKA_START_MAX: Duration = Duration::from_secs(300); // The first start fetches the jars.
const STOP_MAX: Duration = Duration::from_secs(40);
const POLL: Duration = Duration::from_millis(5);

/// Returns the folder of the workspace.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Says what a test leaves out, past the harness that keeps the output of tests that pass to itself.
pub fn skip(what: &str) {
    // Nobody reads it if it cannot be written.
    let _ = writeln!(io::stderr(), "skipped: {what}");
}

/// Returns whether all these programs answer to the argument that asks for their version. If one does not, what needs
/// them is said to be skipped.
///
/// # Panics
///
/// If one is missing where `CI` is set.
pub fn has_tools(what: &str, tools: &[(&str, &str)]) -> bool {
    for (tool, version_argument) in tools {
        if !Command::new(tool).arg(version_argument).output().is_ok_and(|output| output.status.success()) {
            assert!(std::env::var_os("CI").is_none(), "{tool} is needed for {what}");
            skip(&format!("{what}: there is no {tool} here"));
            return false;
        }
    }
    true
}

/// Returns whether the long form of a test is asked for (`SHAREMARK_FULL=1`).
pub fn full() -> bool {
    std::env::var_os("SHAREMARK_FULL").is_some_and(|value| value == "1")
}

/// Returns the `sharemark` binary: `SHAREMARK_BIN`, or one that is built on first use.
///
/// # Errors
///
/// Returns why it could not be built.
pub fn sharemark_binary() -> io::Result<PathBuf> {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BINARY
        .get_or_init(|| build_sharemark().map_err(|error| error.to_string()))
        .clone()
        .map_err(io::Error::other)
}

fn build_sharemark() -> io::Result<PathBuf> {
    if let Some(path) = std::env::var_os("SHAREMARK_BIN") {
        return Ok(path.into());
    }
    // A test program lies in `<target>/<profile>/deps`; the binary goes to `<target>/<profile>`.
    let test_program = std::env::current_exe()?;
    let profile = test_program.ancestors().nth(2).ok_or_else(|| io::Error::other("no target folder"))?;
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.current_dir(workspace()).args(["build", "--quiet", "--workspace", "--bin", "sharemark"]);
    if profile.file_name() == Some(OsStr::new("release")) {
        build.arg("--release");
    }
    if let Some(target) = profile.parent() {
        build.arg("--target-dir").arg(target);
    }
    if !build.status()?.success() {
        return Err(io::Error::other("the sharemark binary does not build"));
    }
    Ok(profile.join("sharemark"))
}

/// Replays a journal with the `sharemark` binary; returns its exit code and what it prints.
///
/// # Errors
///
/// Returns why the binary could not be built or run.
pub fn replay(journal: &Path) -> io::Result<(Option<i32>, String)> {
    let output = Command::new(sharemark_binary()?).arg("replay").arg(journal).output()?;
    let printed = [output.stdout, output.stderr].concat();
    Ok((output.status.code(), String::from_utf8_lossy(&printed).into_owned()))
}

/// A running `sharemark` process.
#[derive(Debug)]
pub struct Sharemark {
    ready: ReadyChild,
    bootstrap: SocketAddr,
}

impl Sharemark {
    /// Starts `sharemark` with these arguments and waits for its ready line.
    ///
    /// # Errors
    ///
    /// Returns what went wrong when the process ends, or says nothing for too long.
    pub fn start<S: AsRef<OsStr>>(arguments: &[S]) -> io::Result<Self> {
        let mut command = Command::new(sharemark_binary()?);
        command.args(arguments);
        let ready = ReadyChild::start(&mut command, SHAREMARK_START_MAX)?;
        let bootstrap = ready.bootstrap()?;
        Ok(Self { ready, bootstrap })
    }

    /// Starts one node on a free port, with more arguments.
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    pub fn start_on_free_port(more: &[&str]) -> io::Result<Self> {
        let mut arguments = vec!["--listen", "127.0.0.1:0"];
        arguments.extend(more);
        Self::start(&arguments)
    }

    /// Returns the address of the first node.
    pub fn bootstrap(&self) -> SocketAddr {
        self.bootstrap
    }

    /// Returns a field of the ready line, such as `startup_ms`.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.ready.fields.get(name).map(String::as_str)
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.ready.child.id()
    }

    /// Asks the process to stop (SIGTERM) and returns how it ended.
    ///
    /// # Errors
    ///
    /// Returns an error if it does not end in time; it is killed then.
    pub fn stop(mut self) -> io::Result<ExitStatus> {
        let pid = self.pid().to_string();
        Command::new("kill").args(["-TERM", &pid]).status()?;
        self.ready.wait()
    }
}

impl Drop for Sharemark {
    fn drop(&mut self) {
        // A test server holds nothing that must be written. An error means that it has ended already.
        drop(self.ready.child.kill());
    }
}

/// A running Kafka 4.4 broker, one node, started by `scripts/kafka-peer.sh`.
#[derive(Debug)]
pub struct KafkaPeer {
    bootstrap: SocketAddr,
    _ready: ReadyChild,
}

impl KafkaPeer {
    /// Starts a broker with more broker properties (`key=value`) and waits until it answers.
    ///
    /// # Errors
    ///
    /// Returns what went wrong: no Java, no Maven, or the broker's own words on standard error.
    pub fn start(properties: &[&str]) -> io::Result<Self> {
        Self::start_with_features(properties, &[])
    }

    /// Starts a broker whose features (`name=level`) are not all those of a new cluster.
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    pub fn start_with_features(properties: &[&str], features: &[&str]) -> io::Result<Self> {
        let mut command = Command::new(workspace().join("scripts/kafka-peer.sh"));
        command.arg("run").env("KAFKA_PEER_PROPERTIES", properties.join(";"));
        command.env("KAFKA_PEER_FEATURES", features.join(" "));
        let ready = ReadyChild::start(&mut command, KAFKA_START_MAX)?;
        Ok(Self { bootstrap: ready.bootstrap()?, _ready: ready })
    }

    /// Returns the broker's address.
    pub fn bootstrap(&self) -> SocketAddr {
        self.bootstrap
    }
}

/// A child process that has printed its ready line. Dropping it closes its standard input and waits for its end.
#[derive(Debug)]
struct ReadyChild {
    child: Child,
    fields: BTreeMap<String, String>,
}

impl ReadyChild {
    fn start(command: &mut Command, wait_max: Duration) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("no standard output"))?;
        let mut started = Self { child, fields: BTreeMap::new() };
        let (sender, receiver) = mpsc::channel();
        // The thread reads on until the child ends, so that its output is never cut off.
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if line.starts_with("ready ") {
                    drop(sender.send(line)); // Nobody waits for a second ready line.
                } else {
                    eprintln!("{line}");
                }
            }
        });
        let line = receiver.recv_timeout(wait_max).map_err(|error| match error {
            mpsc::RecvTimeoutError::Timeout => io::Error::from(io::ErrorKind::TimedOut),
            mpsc::RecvTimeoutError::Disconnected => io::Error::other("the process ended before it was ready"),
        })?;
        started.fields.extend(
            line.split_whitespace()
                .filter_map(|field| field.split_once('='))
                .map(|(k, v)| (k.into(), v.into())),
        );
        Ok(started)
    }

    fn bootstrap(&self) -> io::Result<SocketAddr> {
        self.fields
            .get("bootstrap")
            .and_then(|list| list.split(',').next())
            .and_then(|address| address.parse().ok())
            .ok_or_else(|| io::Error::other(format!("the ready line names no address: {:?}", self.fields)))
    }

    fn wait(&mut self) -> io::Result<ExitStatus> {
        let started = Instant::now();
        while started.elapsed() < STOP_MAX {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            thread::sleep(POLL);
        }
        self.child.kill()?;
        self.child.wait()?;
        Err(io::Error::from(io::ErrorKind::TimedOut))
    }
}

impl Drop for ReadyChild {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        drop(self.wait()); // It has ended, or was killed; there is nobody to tell.
    }
}
